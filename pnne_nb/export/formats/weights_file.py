"""Writes and reads the files of `weights`, with the same contents in both formats."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from pnne_nb.catalog.custom import HOME
from pnne_nb.compiler.analysis.nested_values import tensors_in
from pnne_nb.errors import CompileError, Diagnostic, ExportError, GraphFileError
from pnne_nb.export.formats.base import METADATA_PREFIX, ExportRequest, TensorInfo, in_memory
from pnne_nb.export.formats.model_state import ModelState, make_model, read_state, require_closed
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.registry import registry

_GRAPH, _STATE = f"{METADATA_PREFIX}graph", f"{METADATA_PREFIX}state"


class WeightsFile(NamedTuple):
    """The contents of a file.

    Attributes:
        tensors: Weights by name; of tied ones, the first.
        state: The rest of the model's state.
        metadata: Graph, state, versions, inputs and outputs, by key.
    """

    tensors: dict[str, Tensor]
    state: ModelState
    metadata: dict[str, str]


def contents(request: ExportRequest, format: str) -> WeightsFile:
    """Return the contents of a model's file.

    Raises:
        ExportError: If the model has no graph, or the graph has opaque nodes or custom types.
    """
    graph = request.graph
    if graph is None:
        raise ExportError(
            f"The format {format!r} keeps the graph with the weights, and this model was not compiled from one. Save its "
            "weights with torch.save(model.state_dict(), path), or import it: pn.from_module(net, args=...)."
        )
    require_closed(graph)
    custom = [node for node in graph.nodes.values() if registry[node.type].target.startswith(f"{HOME}.")]
    if custom:
        found = [
            Diagnostic(
                code="custom-type",
                message=f"The type {node.type!r} is code of yours, which weights do not hold.",
                node=node.path,
                hint="pn.save keeps such a graph, and tells whoever loads it which types to register.",
            )
            for node in custom
        ]
        raise ExportError("\n".join(map(str, found)), found)
    tensors, state = read_state(request.model)
    # The export has frozen its copy; nobody asked for that.
    state = ModelState.from_json(json.dumps({**json.loads(state.to_json()), "frozen": []}), "the model")
    return WeightsFile(tensors, state, _metadata(request, graph, state))


def _metadata(request: ExportRequest, graph: NodeGraph, state: ModelState) -> dict[str, str]:
    # Plain texts: torch's own version is of a class that a safe load refuses.
    written = {key: str(value) for key, value in request.metadata.items()}
    return {**written, _GRAPH: graph.to_json(), _STATE: state.to_json()}


def _write_safetensors(file: WeightsFile, path: Path) -> None:
    """Write a file in the safetensors format."""
    path.write_bytes(safetensors.torch.save(file.tensors, dict(file.metadata)))


def _write_pt(file: WeightsFile, path: Path) -> None:
    """Write a file of torch: a ``state_dict`` with every name, and the metadata."""
    named = {**{name: name for name in file.tensors}, **file.state.tied}
    lasting = {name: file.tensors[stored] for name, stored in named.items() if name not in file.state.transient}
    transient = {name: file.tensors[stored] for name, stored in named.items() if name in file.state.transient}
    with in_memory(path) as buffer:
        torch.save({"state_dict": lasting, "transient": transient, "metadata": dict(file.metadata)}, buffer)


def _read_safetensors(path: Path) -> WeightsFile:
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no mapping
    except (SafetensorError, OSError) as error:
        raise ExportError(f"{path.name} is no safetensors file: {error}") from error
    return _checked(tensors, metadata, path)


def _read_pt(path: Path) -> WeightsFile:
    try:
        held: Any = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # of damaged bytes, torch raises anything
        raise ExportError(
            f"{path.name} is no file of weights that pnne_nb wrote: it is damaged, or holds objects other than tensors."
        ) from error
    match held:
        case {"state_dict": dict(lasting), "transient": dict(transient), "metadata": dict(metadata)}:
            return _checked({**lasting, **transient}, metadata, path)
        case dict() if held and all(isinstance(value, Tensor) for value in held.values()):
            return _checked(held, {}, path)
    raise ExportError(f"{path.name} is no file of weights that pnne_nb wrote: it has no 'state_dict' with a graph.")


def _checked(tensors: Mapping[str, Tensor], metadata: dict[str, str], path: Path) -> WeightsFile:
    if _GRAPH not in metadata or _STATE not in metadata:
        raise ExportError(f"{path.name} holds weights without their graph: load it with model.load_state_dict().")
    try:
        state = ModelState.from_json(metadata[_STATE], path.name)
    except GraphFileError as error:
        raise ExportError(error.message) from error
    return WeightsFile({name: value for name, value in tensors.items() if name not in state.tied}, state, metadata)


_FORMS = {"safetensors": (_write_safetensors, _read_safetensors), "pt": (_write_pt, _read_pt)}


def write(file: WeightsFile, path: Path, format: str) -> None:
    """Write a file in the format of this name."""
    _FORMS[format][0](file, path)


def read(path: Path, format: str) -> WeightsFile:
    """Read a file of `write`, without running code from it.

    Raises:
        ExportError: If it is something else.
    """
    return _FORMS[format][1](path)


def make(file: WeightsFile, path: Path) -> tuple[nn.Module, tuple[TensorInfo, ...], tuple[str, ...]]:
    """Return the model in eval mode, its inputs, and the names of its outputs.

    Raises:
        ExportError: If graph and weights do not belong together, or the graph is damaged.
    """
    try:
        graph = NodeGraph.from_json(file.metadata[_GRAPH])
        model = make_model(graph, file.tensors, file.state, path.name).eval()
        inputs = json.loads(file.metadata[f"{METADATA_PREFIX}inputs"])
        outputs = json.loads(file.metadata[f"{METADATA_PREFIX}outputs"])
        return model, tuple(TensorInfo(name, dtype, tuple(shape)) for name, dtype, shape in inputs), tuple(outputs)
    except (GraphFileError, CompileError) as error:
        raise ExportError(f"{path.name} cannot be made a model again: {error}", error.diagnostics) from error
    except (KeyError, TypeError, ValueError) as error:
        raise ExportError(f"{path.name} does not say its inputs and outputs: {error}") from error


def results(model: nn.Module, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors that a model gives, in order."""
    try:
        with torch.no_grad():
            return tensors_in(model(*inputs))
    except Exception as error:
        raise ExportError(f"The model cannot run: {error}") from error
