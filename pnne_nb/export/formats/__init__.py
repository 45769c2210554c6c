"""The file formats: one module for each, behind the protocol of `base`; `FORMATS` is the only list of them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar

from pnne_nb.errors import ArgumentError, ExportError, expect, near, shown
from pnne_nb.export.formats.aoti import AotiFormat
from pnne_nb.export.formats.base import ExportedModel, ExportFormat
from pnne_nb.export.formats.executorch import ExecuTorchFormat
from pnne_nb.export.formats.onnx import OnnxFormat
from pnne_nb.export.formats.pt2 import Pt2Format
from pnne_nb.export.formats.torchscript import TorchScriptFormat
from pnne_nb.export.formats.weights import WeightsFormat

FORMATS: list[ExportFormat] = [
    OnnxFormat(),
    Pt2Format(),
    WeightsFormat("safetensors", (".safetensors",)),
    WeightsFormat("pt", (".pt", ".pth")),
    AotiFormat(),
    ExecuTorchFormat(),
    TorchScriptFormat(),
]
"""Every format, in the order in which messages list them; those that `register_format` has added come last."""

_BUILT_IN: Final = tuple(FORMATS)

Registered = TypeVar("Registered", bound=type[ExportFormat])


def register_format(format: Registered) -> Registered:
    """Add a format of one's own to those that `pn.export` writes, checks and proves, and that the editor offers.

    ::

        @pn.register_format
        class Numpy(pn.ExportFormat):
            name, suffixes = "npz", (".npz",)
            def write(self, request, path): ...
            def open(self, path, watched=(), given=()): ...

    A file is proved in a process of its own, which imports the module of the class; where the class is a notebook's, it
    is proved in the kernel. Running a cell again replaces what it registered before.

    Args:
        format: A subclass of `pn.ExportFormat` that can be made without arguments.

    Raises:
        ArgumentError: It is none, or its name or the end of its files is another format's.
    """
    given: object = format
    if not isinstance(given, type) or not issubclass(given, ExportFormat):
        raise ArgumentError(f"Register a subclass of pn.ExportFormat, not {shown(format)}.")
    if abstract := sorted(format.__abstractmethods__):
        raise ArgumentError(f"{format.__name__} lacks {' and '.join(abstract)}.")
    made = format()
    if not getattr(made, "name", "") or not getattr(made, "suffixes", ()):
        raise ArgumentError(f'{format.__name__} needs a name and suffixes, such as name, suffixes = "npz", (".npz",).')
    others = [each for each in FORMATS if each in _BUILT_IN or each.name != made.name]
    for other in others:
        taken = {other.name} & {made.name} or set(other.suffixes) & set(made.suffixes)
        if taken:
            raise ArgumentError(f"{format.__name__} cannot have {taken.pop()!r}, which is that of {other.name!r}.")
    FORMATS[:] = [*others, made]
    return format


def is_built_in(format: ExportFormat) -> bool:
    """Return whether a format is one of this package's own, and not registered from outside."""
    return format in _BUILT_IN


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
