"""The messages of an editor's export dialog."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from pnne_nb.errors import Diagnostic
from pnne_nb.protocol.base_message import Answer, Message, ViewRequest

# From the browser


class GetExportFormats(ViewRequest, frozen=True, tag="getExportFormats"):
    """Send the `ExportFormats` to this view."""


class StartExport(ViewRequest, frozen=True, tag="startExport"):
    """Write the model to `path` on the kernel's machine and prove the file; answered by an `ExportState` to every view."""

    format: str
    path: str
    overwrite: bool = False


class CancelExport(ViewRequest, frozen=True, tag="cancelExport"):
    """End the export that is under way; no file stays. Answered by an `ExportState` to every view."""


class WatchExport(ViewRequest, frozen=True, tag="watchExport"):
    """Check after every edit what an export would do, as `ExportCheck` to every view; an empty `format` ends it."""

    format: str = ""


ExportRequest: TypeAlias = GetExportFormats | StartExport | CancelExport | WatchExport


# To the browser


class ExportFormatState(msgspec.Struct, frozen=True, rename="camel"):
    """A format that a model can be exported to.

    Attributes:
        name: What ``pn.export(format=...)`` calls it.
        suffix: The usual end of its files' names.
        note: What a person should know before: that it takes minutes, that torch deprecates it.
        missing: The packages that it needs and that are not installed, as a sentence; empty if none is.
    """

    name: str
    suffix: str
    note: str = ""
    missing: str = ""


class ExportFormats(Answer, frozen=True, tag="exportFormats"):
    """Answer to `GetExportFormats`.

    Attributes:
        formats: In the order in which they are offered.
        folder: Where a path that is not absolute begins.
        weights: Which weights a file would get, as a sentence.
    """

    formats: tuple[ExportFormatState, ...]
    folder: str
    weights: str


class ValueHistograms(msgspec.Struct, frozen=True, rename="camel"):
    """Histograms of a node's values in the model and in an exported file.

    Attributes:
        low: Where the first bin begins.
        high: Where the last bin ends; all bins are equally wide.
        model: Counts of the model's values.
        file: Counts of the file's.
        left_out: Values of both that are in no bin, such as infinite ones.
    """

    low: float
    high: float
    model: tuple[int, ...]
    file: tuple[int, ...]
    left_out: int = 0


class NodeError(msgspec.Struct, frozen=True, rename="camel"):
    """The error of an exported file at one node.

    Attributes:
        node: Its path.
        type: Its type.
        error: The largest distance, in the unit of the values; None if it was not compared or is not finite.
        ratio: The error divided by what is tolerated; above 1, file and model differ. None as for `error`.
        ok: Whether they agree, as far as they were compared.
        note: Why it was not compared, or where it differs.
        histograms: How the values are spread; None if they were not compared.
    """

    node: str
    type: str
    error: float | None
    ratio: float | None
    ok: bool
    note: str = ""
    histograms: ValueHistograms | None = None


class ExportResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of an export: a sentence, further facts, one per line, and every node in the order of execution."""

    ok: bool
    headline: str
    facts: tuple[str, ...]
    nodes: tuple[NodeError, ...]


class ExportState(Message, frozen=True, tag="exportState"):
    """The state of the latest export.

    Attributes:
        state: ``"idle"``: there was none; ``"done"``: a file was written, which `result` says how well it agrees.
        format: The name of its format.
        path: Where the file goes.
        seconds: How long it has taken so far.
        cancellable: Whether it can be ended before it is done.
        stale: Whether the graph was edited since.
        error: Why there is no file.
        diagnostics: The same at nodes.
        result: How well the file agrees with the model.
    """

    state: Literal["idle", "running", "done", "failed", "cancelled"] = "idle"
    format: str = ""
    path: str = ""
    seconds: float = 0.0
    cancellable: bool = True
    stale: bool = False
    error: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    result: ExportResult | None = None
    id: int | None = None
    client: str | None = None


class ExportCheck(Message, frozen=True, tag="exportCheck"):
    """The findings of a check of the current graph for an export.

    Attributes:
        state: ``"checking"``: `findings` are those of the graph before the latest edits; ``"failed"``: `error` says why
            there are none.
        format: The name of the format; empty if none is watched.
        findings: As of ``pn.check_export``.
        error: Why the check could not be made.
    """

    state: Literal["off", "checking", "done", "failed"] = "off"
    format: str = ""
    findings: tuple[Diagnostic, ...] = ()
    error: str = ""
    id: int | None = None
    client: str | None = None


ExportEvent: TypeAlias = ExportFormats | ExportState | ExportCheck
