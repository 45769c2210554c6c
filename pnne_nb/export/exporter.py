"""`pn.export` writes a model to a file for another runtime, atomically, and proves it; `pn.check_export` only looks."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import Diagnostic, ExportError, expect
from pnne_nb.export.attempt import attempt, prepare, request_of, with_repairs
from pnne_nb.export.export_report import ExportReport
from pnne_nb.export.formats import find_format, require_packages
from pnne_nb.export.formats.traced_program import size_findings, trace
from pnne_nb.export.proof.parity import Tolerance
from pnne_nb.export.subject.example_batches import BatchMaker
from pnne_nb.export.subject.fixed_axes import axis_findings, fixed_axes, freed
from pnne_nb.export.subject.subject import Sizes
from pnne_nb.graph.model.annex import OWN
from pnne_nb.process.atomic_file import file_at, written_beside
from pnne_nb.process.random_state import private_random_state


def check_destination(path: str | Path, *, overwrite: bool) -> Path:
    """Return the path, if a file can be written there.

    Raises:
        ExportError: If there is a file already and `overwrite` is not set, a device or a pipe is there, or the directory
            does not exist.
    """
    expect(path, (str, os.PathLike), "path", "the path of the file to write")
    target = Path(path)
    try:
        found = file_at(target)
    except OSError as error:
        raise ExportError(f"{str(target)!r} cannot be written: {error.strerror or error}.") from error
    if found is None:
        if not target.parent.is_dir():
            raise ExportError(f"There is no directory {str(target.parent)!r} for {target.name!r}: make it first.")
    elif stat.S_ISDIR(found.st_mode):
        raise ExportError(f"{str(target)!r} is a directory: add the name of the file.")
    elif not stat.S_ISREG(found.st_mode):
        raise ExportError(f"{str(target)!r} is a device or a pipe, and not replaced: choose the name of a file.")
    elif not overwrite:
        raise ExportError(f"{str(target)!r} exists already: pass overwrite=True, or choose another name.")
    return target


def export_model(
    graph_or_model_or_engine: object,
    path: str | Path,
    format: str = "auto",
    *,
    data: object = None,
    sizes: Sizes | None = None,
    opset: int | None = None,
    tolerance: Tolerance = "auto",
    overwrite: bool = False,
    reuse: Reuse = OWN,
) -> ExportReport:
    """Write a model to a file; see `pnne_nb.export`."""
    hint = 'Write pn.export(model, "net.onnx", data=x).'
    expect(path, (str, os.PathLike), "path", "the path of the file to write", hint)
    found = find_format(format, path)
    require_packages(found)
    target = check_destination(path, overwrite=overwrite)
    try:
        with private_random_state(), written_beside(target) as temporary:
            report = attempt(graph_or_model_or_engine, found, temporary, data, sizes, opset, tolerance, reuse)
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
    except OSError as error:
        raise ExportError(f"{str(target)!r} cannot be written: {error.strerror or error}.") from error
    report = replace(report, path=target)
    if not report.ok:
        warnings.warn(report.headline, stacklevel=3)
    return report


def check_export(
    graph: object,
    format: str = "onnx",
    *,
    data: object = None,
    sizes: Sizes | None = None,
    opset: int | None = None,
    reuse: Reuse = OWN,
) -> list[Diagnostic]:
    """Return the findings of an export: operations without a translation, fixed sizes, decomposed operations.

    The file is written and proved in a temporary folder, so that the answer is what the export then does. It takes a few
    seconds; of formats whose writing takes minutes, the model is only traced.

    Args:
        graph: A graph, a module, or an engine.
        format: The name of the format.
        data: As of `pn.export`.
        sizes: As of `pn.export`.
        opset: As of `pn.export`.
        reuse: As of `pn.export`.

    Returns:
        Errors keep the model from being exported (``"no-translation"``, ``"data-dependent"``, ``"not-traceable"``, …).
        Warnings tell what the file will do otherwise (``"size-fixed"``, ``"differs"``), and where the model takes other
        sizes than the number in the document (``"axis-fixed"``). The rest informs: axes at which the model takes that size
        only (``"axis-fixed"``), and ``"decomposed"``.

    Raises:
        ExportError: There is no such format, or its packages are not installed.
    """
    found = find_format(format, "")
    require_packages(found)
    try:
        with private_random_state(), tempfile.TemporaryDirectory(prefix="pnne-check-") as folder:
            if found.slow:
                subject, _, example = prepare(graph, data, sizes, reuse)
                tensors = BatchMaker(subject.model, subject.inputs, subject.limits, subject.seen).tensors(example)
                with with_repairs(subject.graph):
                    found_sizes = trace(request_of(subject, tensors)).sizes
                axes = fixed_axes(subject, sizes, example)
                free = freed(subject.inputs, axes)
                return [*size_findings(found_sizes), *axis_findings(axes, free, found.unchecked)]
            path = Path(folder) / f"model{found.suffixes[0]}"
            report = attempt(graph, found, path, data, sizes, opset, reuse=reuse)
    except ExportError as error:
        return list(error.diagnostics) or [Diagnostic("not-exportable", error.message)]
    different = [
        Diagnostic("differs", f"The file computes something else: {each.difference}.", each.node, severity="warning")
        for each in report.nodes.values()
        if not each.ok
    ]
    if not report.ok and not different:
        different = [Diagnostic("differs", report.headline, severity="warning")]
    return [*different, *size_findings(tuple(report.sizes.values())), *report.findings]
