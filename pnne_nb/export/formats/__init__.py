"""The file formats: one module for each, behind the protocol of `base`; this is the only list of them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from pnne_nb.errors import ExportError, expect, near, shown
from pnne_nb.export.formats.aoti import AotiFormat
from pnne_nb.export.formats.base import ExportedModel, ExportFormat
from pnne_nb.export.formats.executorch import ExecuTorchFormat
from pnne_nb.export.formats.onnx import OnnxFormat
from pnne_nb.export.formats.pt2 import Pt2Format
from pnne_nb.export.formats.torchscript import TorchScriptFormat
from pnne_nb.export.formats.weights import WeightsFormat

FORMATS: tuple[ExportFormat, ...] = (
    OnnxFormat(),
    Pt2Format(),
    WeightsFormat("safetensors", (".safetensors",)),
    WeightsFormat("pt", (".pt", ".pth")),
    AotiFormat(),
    ExecuTorchFormat(),
    TorchScriptFormat(),
)
"""Every format, in the order in which messages list them."""


def find_format(name: str, path: str | Path) -> ExportFormat:
    """Return the format of that name, or for ``"auto"`` the one of the suffix of `path`.

    Raises:
        ExportError: If there is none.
    """
    known = {format.name: format for format in FORMATS}
    if name != "auto":
        expect(name, str, "format", "the name of a format")
        if name not in known:
            raise ExportError(
                f"There is no format {shown(name)}.{near(name, known)} The formats are {', '.join(map(repr, known))}."
            )
        return known[name]
    expect(path, (str, os.PathLike), "path", "the path of an exported file")
    # The longest end wins: "net.aoti.pt2" is no "net.pt2".
    ends = sorted(((end, format) for format in FORMATS for end in format.suffixes), key=lambda pair: -len(pair[0]))
    file = os.fspath(path).lower()
    for end, format in ends:
        if file.endswith(end):
            return format
    listed = ", ".join(f"{end} ({format.name})" for format in FORMATS for end in format.suffixes)
    raise ExportError(f"The end of {shown(os.fspath(path))} means no format. Pass format=..., or end it in {listed}.")


def require_packages(format: ExportFormat) -> None:
    """Raise an error if the packages of a format are not installed.

    Raises:
        ExportError: It names the extra that installs them.
    """
    missing = [package for package in format.packages if find_spec(package) is None]
    if missing:
        raise ExportError(
            f"The format {format.name!r} needs {' and '.join(missing)}, which "
            f"{'is' if len(missing) == 1 else 'are'} not installed: pip install 'pnne_nb[{format.extra}]'"
        )


def open(path: str | Path, format: str = "auto") -> ExportedModel:
    """Open an exported file with its own runtime.

    Args:
        path: The file.
        format: The name of its format; ``"auto"`` takes the one that the end of `path` means.

    Raises:
        ExportError: If there is no such file, it is no file of that format, or a package is missing.
    """
    found = find_format(format, path)
    require_packages(found)
    if not Path(path).exists():
        raise ExportError(f"There is no file {shown(os.fspath(path))}.")
    return found.open(Path(path))
