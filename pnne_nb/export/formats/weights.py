"""Weights together with their graph: this package restores the model, others read the weights by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import NDArray

from pnne_nb.export.formats.base import (
    ExportRequest,
    FreeSize,
    NodeTensor,
    TensorInfo,
    WrittenFile,
    as_array,
    as_tensor,
)

if TYPE_CHECKING:
    from pnne_nb.export.formats.weights_file import WeightsFile

_NOTE = "The file holds weights and the graph: pn.InferenceEngine.load makes the model again; other programs read the weights."


def _written(request: ExportRequest) -> WrittenFile:
    """Return what there is to tell: the model is compiled again, so that every size that the graph leaves free stays free."""
    names = {size: None for info in request.inputs for size in info.shape if isinstance(size, str)}
    limits = {name: request.limits.get(name, (1, None)) for name in names}
    sizes = (
        FreeSize(name, "named", smallest=smallest, largest=largest) for name, (smallest, largest) in limits.items()
    )
    return WrittenFile(tuple(sizes), notes=(_NOTE,))


@final
class WeightsFormat:
    """Weights by the names of ``state_dict``; graph, state and versions are in the metadata of the file.

    Args:
        name: ``"safetensors"``, or ``"pt"`` for ``torch.load(path, weights_only=True)["state_dict"]``.
        suffixes: Of its files.
    """

    extra = ""
    packages = ()
    runs_code = False
    slow = False
    deprecated = ""
    outputs_only = "the file holds weights, of which the same nodes are compiled again"

    def __init__(self, name: str, suffixes: tuple[str, ...]) -> None:
        self.name = name
        self.suffixes = suffixes

    def write(self, request: ExportRequest, path: Path) -> WrittenFile:
        from pnne_nb.export.formats.weights_file import contents, write  # noqa: PLC0415  # torch, late

        write(contents(request, self.name), path, self.name)
        return _written(request)

    def node_tensors(self, path: Path) -> tuple[NodeTensor, ...]:
        del path  # the model is compiled, and has no tensors in a file
        return ()

    def open(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> WeightsModel:
        del watched, given  # as above
        from pnne_nb.export.formats.weights_file import read  # noqa: PLC0415  # as above

        return WeightsModel(read(path, self.name), path)


@final
class WeightsModel:
    """A model that is compiled from the graph in the file, in eval mode on the CPU."""

    def __init__(self, file: WeightsFile, path: Path) -> None:
        from pnne_nb.export.formats.weights_file import make  # noqa: PLC0415  # as above

        self.metadata: Mapping[str, str] = file.metadata
        self._model, self.inputs, names = make(file, path)
        self.outputs = tuple(TensorInfo(name, "", ()) for name in names)

    def run(self, inputs: Mapping[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
        from pnne_nb.export.formats.weights_file import results  # noqa: PLC0415  # as above

        given = [as_tensor(inputs[info.name], info.dtype) for info in self.inputs]
        found = results(self._model, given)
        return {info.name: as_array(value) for info, value in zip(self.outputs, found, strict=True)}

    def close(self) -> None:
        del self._model
