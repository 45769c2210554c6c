"""`pn.export`: writes a model to a file for another runtime, atomically, and proves the file."""

from __future__ import annotations

import os
import stat
import warnings
from dataclasses import replace
from pathlib import Path

from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import ExportError, expect
from pnne_nb.export.attempt import attempt
from pnne_nb.export.export_report import ExportReport
from pnne_nb.export.formats import find_format, require_packages
from pnne_nb.export.proof.comparison import Tolerance
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
