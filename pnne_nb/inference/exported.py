"""Runs exported files like models, and checks names, element types and sizes of their inputs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, final

import torch
from torch import Tensor, nn

from pnne_nb.errors import Diagnostic, ExportError, TrainingError, expect, near, shown
from pnne_nb.export import formats
from pnne_nb.export.formats.base import METADATA_PREFIX, ExportedModel, TensorInfo, as_array


@final
class ExportedModule(nn.Module):
    """An exported file as a module without weights: its ``forward`` takes and returns tensors, in the file's order.

    Raises:
        ExportError: If the file does not take what its own metadata says.
    """

    def __init__(self, exported: ExportedModel, file: str) -> None:
        super().__init__()
        self.exported: ExportedModel | None = exported
        self.file = file
        self.inputs = exported.inputs
        self.outputs = exported.outputs
        written = exported.metadata.get(f"{METADATA_PREFIX}inputs")
        said = [entry[0] for entry in json.loads(written)] if written is not None else None
        names = [info.name for info in self.inputs]
        if said is not None and said != names:
            raise ExportError(
                f"{file} takes the inputs {', '.join(names)}, and its metadata says {', '.join(said)}: it was changed after "
                "the export. Export it again."
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A runtime holds no state that a prediction changes, and cannot be copied.
        return self

    @property
    def signature(self) -> Mapping[str, inspect.Parameter]:
        """The arguments of ``forward``."""
        return {info.name: inspect.Parameter(info.name, _KIND) for info in self.inputs if info.name.isidentifier()} or {
            f"input_{index}": inspect.Parameter(f"input_{index}", _KIND) for index in range(len(self.inputs))
        }

    def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
        """Return the output, or a tuple of several."""
        if self.exported is None:
            raise TrainingError(f"{self.file} is closed: load it again.")
        given = {**dict(zip((info.name for info in self.inputs), inputs, strict=False)), **named}
        found = self.exported.run({name: as_array(value) for name, value in given.items()})
        outputs = tuple(torch.from_numpy(found[info.name]) for info in self.outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def close(self) -> None:
        """Free the runtime's resources."""
        if self.exported is not None:
            self.exported.close()
            self.exported = None


_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD


def open_exported(path: Path, format: str, *, trust: bool) -> ExportedModule:
    """Open an exported file.

    Raises:
        ExportError: If there is none, it is no such file, a package is missing, or opening it can run code and `trust` is
            False.
    """
    found = formats.find_format(format, path)
    if found.runs_code and not trust:
        raise ExportError(
            f"Opening {path.name} can run code that is in the file ({found.name}). Pass trust=True if you know who has "
            "written it; a package (pn.save) and an ONNX file hold data only."
        )
    return ExportedModule(formats.open(path, format), path.name)


def classes_of(module: ExportedModule) -> tuple[str, ...] | None:
    """Return the names of classes in the metadata of a file, if there are any."""
    assert module.exported is not None
    said = module.exported.metadata.get(f"{METADATA_PREFIX}classes")
    return tuple(json.loads(said)) if said is not None else None


def require_classes(wanted: Sequence[str] | None, known: tuple[str, ...] | None, file: str) -> tuple[str, ...] | None:
    """Return the names of the classes, if those of the caller and of the file agree.

    Raises:
        ExportError: If it is not; the message names the first difference.
    """
    if wanted is None:
        return known
    expect(wanted, (list, tuple), "classes", "the names of the classes, in order")
    if known is None or tuple(wanted) == known:
        return tuple(wanted)
    if len(wanted) != len(known):
        raise ExportError(f"{file} has {len(known)} classes, and classes has {len(wanted)}.")
    index = next(index for index, pair in enumerate(zip(wanted, known, strict=True)) if pair[0] != pair[1])
    raise ExportError(f"Class {index} is {shown(wanted[index])} in classes, and {known[index]!r} in {file}.")


def require_inputs(infos: Sequence[TensorInfo], inputs: Sequence[Any], named: Mapping[str, Any], file: str) -> None:
    """Raise an error for a batch that `file` does not accept, with inputs by place and by name (`named`).

    Raises:
        TrainingError: Another number of inputs, or another name, element type or size; the message says which.
    """
    names = [info.name for info in infos]
    for name in named:
        if name not in names:
            raise _unfit(None, f"{file} has no input {shown(name)}.{near(name, names)} It takes {', '.join(names)}.")
    given = {**dict(zip(names, inputs, strict=False)), **named}
    if len(inputs) > len(names) or len(given) < len(names):
        raise _unfit(
            None,
            f"{file} takes {len(names)} inputs ({', '.join(names)}), and the batch has {len(inputs) + len(named)}.",
        )
    for info in infos:
        value = given[info.name]
        if not isinstance(value, Tensor):
            raise _unfit(info.name, f"The input {info.name} of {file} takes a tensor, not a {type(value).__name__}.")
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype != info.dtype:
            raise _unfit(
                info.name,
                f"The input {info.name} of {file} takes {info.dtype}, and the data is {dtype}: convert it, with "
                f".to(torch.{info.dtype}).",
            )
        wanted = f"({', '.join(str(size) or '?' for size in info.shape)})"
        fits = len(value.shape) == len(info.shape) and all(
            not isinstance(size, int) or size == count for size, count in zip(info.shape, value.shape, strict=True)
        )
        if not fits:
            raise _unfit(
                info.name, f"The input {info.name} of {file} has the shape {wanted}, and the data {tuple(value.shape)}."
            )


def _unfit(node: str | None, message: str) -> TrainingError:
    return TrainingError(message, [Diagnostic(code="data-mismatch", message=message, node=node)])
