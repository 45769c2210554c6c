"""Weights together with their graph: this package restores the model, others read the weights by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import final

from pnne_nb.export.formats.base import ExportFormat, ExportRequest, FreeSize, WholeProgram, WrittenFile, free_sizes

_NOTE = "The file holds weights and the graph: pn.InferenceEngine.load makes the model again; other programs read the weights."


@final
class WeightsFormat(ExportFormat):
    """Weights by the names of ``state_dict``; graph, state and versions are in the metadata of the file.

    Args:
        name: ``"safetensors"``, or ``"pt"`` for ``torch.load(path, weights_only=True)["state_dict"]``.
        suffixes: Of its files.
    """

    outputs_only = "the file holds weights, of which the same nodes are compiled again"

    def __init__(self, name: str, suffixes: tuple[str, ...]) -> None:
        self.name = name
        self.suffixes = suffixes

    def write(self, request: ExportRequest, path: Path) -> WrittenFile:
        from pnne_nb.export.formats.weights_file import write  # noqa: PLC0415  # torch, late

        write(request, path, self.name)
        # The model is compiled again, so that every size that the graph leaves free stays free.
        limits = {name: request.limits.get(name, (1, None)) for name in free_sizes(request.inputs)}
        sizes = (FreeSize(name, "named", None, *each) for name, each in limits.items())
        return WrittenFile(tuple(sizes), notes=(_NOTE,))

    def open(self, path: Path, watched: Sequence[str] = (), given: Sequence[str] = ()) -> WholeProgram:  # noqa: ARG002  # as `node_tensors` says, there are none
        from pnne_nb.export.formats.weights_file import opened  # noqa: PLC0415  # as above

        return opened(path, self.name)
