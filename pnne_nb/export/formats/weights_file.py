"""Writes and reads the files of `weights`, with the same contents in both formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from pnne_nb.catalog.custom import is_custom
from pnne_nb.compiler.analysis.nested_values import tensors_in
from pnne_nb.compiler.ir.snapshot import paths_of, read
from pnne_nb.compiler.weights import tensor_file
from pnne_nb.errors import CompileError, Diagnostic, ExportError, GraphFileError
from pnne_nb.export.formats.base import METADATA_PREFIX, ExportRequest, WholeProgram, in_memory
from pnne_nb.export.formats.model_state import ModelState, make_model, read_state, require_closed
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.registry import registry

_GRAPH, _STATE = f"{METADATA_PREFIX}graph", f"{METADATA_PREFIX}state"


def write(request: ExportRequest, path: Path, format: str) -> None:
    """Write a file in the format of this name.

    A file of torch has a ``state_dict`` with every name, and the metadata.

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
    snapshots = read(graph)
    paths = paths_of(snapshots)
    found = [
        Diagnostic(
            code="custom-type",
            message=f"The type {node.type!r} is code of yours, which weights do not hold.",
            node=f"{paths[id][0]}{name}",
            hint="pn.save keeps such a graph, and tells whoever loads it which types to register.",
        )
        for id, snapshot in snapshots.items()
        for name, node in snapshot.nodes.items()
        if is_custom(registry[node.type])
    ]
    if found:
        raise ExportError("\n".join(map(str, found)), found)
    tensors, state = read_state(request.model)
    state = msgspec.structs.replace(state, frozen=())  # the export has frozen its copy; nobody asked for that
    # Plain texts: torch's own version is of a class that a safe load refuses.
    written = {key: str(value) for key, value in request.metadata.items()}
    metadata = {**written, _GRAPH: graph.to_json(), _STATE: state.to_json()}
    if format == "safetensors":
        path.write_bytes(tensor_file.to_bytes(tensors, metadata))  # a full disk is then an OSError
        return
    named = {**tensors, **{name: tensors[stored] for name, stored in state.tied.items()}}
    transient = {name: named.pop(name) for name in state.transient}
    with in_memory(path) as buffer:
        torch.save({"state_dict": named, "transient": transient, "metadata": metadata}, buffer)


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        return tensor_file.read(path)
    except tensor_file.TensorFileError as error:
        raise ExportError(f"{path.name} is no safetensors file: {error}") from error


def _read_pt(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        held: Any = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # of damaged bytes, torch raises anything
        raise ExportError(
            f"{path.name} is no file of weights that pnne_nb wrote: it is damaged, or holds objects other than tensors."
        ) from error
    match held:
        case {"state_dict": dict(lasting), "transient": dict(transient), "metadata": dict(metadata)}:
            return {**lasting, **transient}, metadata
        case dict() if held and all(isinstance(value, Tensor) for value in held.values()):
            return held, {}
    raise ExportError(f"{path.name} is no file of weights that pnne_nb wrote: it has no 'state_dict' with a graph.")


def opened(path: Path, format: str) -> WholeProgram:
    """Return the model of a file of `write`, which is compiled from its graph, in eval mode on the CPU.

    No code from the file is run.

    Raises:
        ExportError: If it is something else, graph and weights do not belong together, or the graph is damaged.
    """
    tensors, metadata = (_read_safetensors if format == "safetensors" else _read_pt)(path)
    if _GRAPH not in metadata or _STATE not in metadata:
        raise ExportError(f"{path.name} holds weights without their graph: load it with model.load_state_dict().")
    try:
        state = ModelState.from_json(metadata[_STATE], path.name)
    except GraphFileError as error:
        raise ExportError(error.message) from error
    weights = {name: value for name, value in tensors.items() if name not in state.tied}
    try:
        graph = NodeGraph.from_json(metadata[_GRAPH])
        model = make_model(graph, weights, state, path.name).eval()
        inputs, outputs = (json.loads(metadata[f"{METADATA_PREFIX}{name}"]) for name in ("inputs", "outputs"))
        content = {"metadata": metadata, "inputs": inputs, "outputs": [(name, "", ()) for name in outputs]}
        return WholeProgram(content, lambda *given: tensors_in(model(*given)), "The model cannot run")
    except (GraphFileError, CompileError) as error:
        raise ExportError(f"{path.name} cannot be made a model again: {error}", error.diagnostics) from error
    except (KeyError, TypeError, ValueError) as error:
        raise ExportError(f"{path.name} does not say its inputs and outputs: {error}") from error
