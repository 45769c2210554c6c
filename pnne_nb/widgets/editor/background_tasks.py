"""Answers the requests of a page that start long work: exports, their check, and runs up to a port.

Most editors are asked for none of it: what it needs is imported with the first request.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, assert_never, final

import msgspec
from torch import nn

from pnne_nb.errors import PnneError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.protocol.export_messages import (
    CancelExport,
    ExportCheck,
    ExportFormats,
    ExportState,
    GetExportFormats,
    StartExport,
    WatchExport,
)
from pnne_nb.protocol.messages import Event, RunToHere, SeenTensor

if TYPE_CHECKING:
    from pnne_nb.widgets.editor.export_dialog import ExportDialog, Lend
    from pnne_nb.widgets.editor.run_to_here import Example, PortRuns

ExportRequest = GetExportFormats | StartExport | CancelExport | WatchExport


@final
class BackgroundTasks:
    """The long work of one editor.

    Args:
        graph: The document.
        lend: Gives the model to export or to run, and data if there is a training.
        tell: Takes what every view is told of an export.
        report: Takes the report of an export as HTML.
    """

    def __init__(
        self,
        graph: NodeGraph,
        lend: Lend,
        tell: Callable[[ExportState | ExportCheck], None],
        report: Callable[[str], None],
    ) -> None:
        self._graph = graph
        self._lend = lend
        self._tell = tell
        self._report = report
        self._runs: PortRuns | None = None
        self._exports: ExportDialog | None = None

    def run_to_here(
        self,
        request: RunToHere,
        latest: nn.Module | None,
        example: Example | None,
        tell: Callable[[SeenTensor | PnneError], None],
    ) -> None:
        """Run up to a port in a thread; see `PortRuns.start`."""
        from pnne_nb.widgets.editor.run_to_here import PortRuns  # noqa: PLC0415  # few ask for it

        if self._runs is None:
            self._runs = PortRuns(self._graph, self._lend)
        self._runs.start(request, latest, example, tell)

    def answer(self, request: ExportRequest, weights: str) -> Callable[[], Event]:
        """Carry out a request about exports; return what makes the answer when it is sent.

        Args:
            request: Of a page.
            weights: A sentence that says whose weights are exported.

        Raises:
            ExportError: If the request is refused.
        """
        from pnne_nb.widgets.editor.export_dialog import ExportDialog, format_states  # noqa: PLC0415  # few ask for it

        if self._exports is None:
            self._exports = ExportDialog(self._graph, self._lend, self._tell, self._report)
            # An editor that is forgotten ends the processes that it has started.
            weakref.finalize(self, self._exports.close).atexit = False
        id, client, exports = request.id, request.client, self._exports
        match request:
            case GetExportFormats():
                formats, folder = format_states(), str(Path.cwd())
                return lambda: ExportFormats(id, client, formats, folder, weights)
            case StartExport(format=format, path=path, overwrite=overwrite):
                exports.start(format, path, overwrite=overwrite)
            case CancelExport():
                exports.cancel()
            case WatchExport(format=format):
                exports.watch(format)
                return lambda: msgspec.structs.replace(exports.check, id=id, client=client)
            case _:
                assert_never(request)
        return lambda: msgspec.structs.replace(exports.state, id=id, client=client)

    def export_events(self) -> Iterator[ExportState | ExportCheck]:
        """What a view that has just been opened is told of exports; nothing if nobody has asked for any."""
        if self._exports is not None:
            yield self._exports.state
            yield self._exports.check

    def edited(self) -> None:
        """The document computes something else now."""
        if self._exports is not None:
            self._exports.edited()

    def close(self) -> None:
        """End the export that is under way, and wait for a run."""
        if self._exports is not None:
            self._exports.close()
            self._exports = None
        if self._runs is not None:
            self._runs.close()
