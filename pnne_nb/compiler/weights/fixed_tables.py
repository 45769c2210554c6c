"""Fixed tables of imported modules that are too large for a document: their values lie in a file beside the graph file.

The document has the SHA-256 digest of each table, by which the file names it, so that a node finds its values after any
renaming, and values that are not those of the import are never taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from pnne_nb.compiler.weights import tensor_file
from pnne_nb.compiler.weights.rename_log import former_paths, nodes_by_path, track_of
from pnne_nb.compiler.weights.reuse import former_path
from pnne_nb.compiler.weights.tensor_file import named_tensors
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.origin import DIGEST


def digest_of(tensor: Tensor) -> str:
    """Return the digest of a tensor's element type, shape and values."""
    plain = tensor.detach().cpu().contiguous().resolve_conj()
    said = hashlib.sha256(f"{plain.dtype} {tuple(plain.shape)}".encode())
    said.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return f"{DIGEST}{said.hexdigest()}"


def table_file(graph: NodeGraph) -> bytes | None:
    """Return a safetensors file with the values of a graph's fixed tables, by digest; None if none are there."""
    wanted = dict(_tables(graph))
    found: dict[str, Tensor] = {}
    for source in track_of(graph).sources.values():
        with source.hold() as module:
            if module is None:
                continue
            tensors, former = named_tensors(module), former_paths(graph, module)
            for path, digest in wanted.items():
                tensor = tensors.get(former_path(path, former) or "")
                if digest not in found and tensor is not None and digest_of(tensor) == digest:
                    found[digest] = tensor.detach().cpu().contiguous()
    missing = {digest for digest in wanted.values() if digest not in found}
    if missing and graph.tables is not None:
        found |= _read(graph.tables, missing)[0]
    return tensor_file.to_bytes(found) if found else None


def take_tables(graph: NodeGraph, model: nn.Module, carried: Collection[str]) -> tuple[set[str], str]:
    """Give a new model the values of the fixed tables that it has from nowhere else.

    Args:
        graph: The document.
        model: A model of it.
        carried: Names of the tensors that have values already.

    Returns:
        The names of the tensors that have their values now, and why others do not.
    """
    tensors = named_tensors(model) if graph.tables is not None else {}
    wanted = {path: digest for path, digest in _tables(graph) if path in tensors and path not in carried}
    if not wanted or graph.tables is None:
        return set(), ""
    found, why = _read(graph.tables, {*wanted.values()})
    placed = set()
    for path, digest in wanted.items():
        value, tensor = found.get(digest), tensors[path]
        if value is not None and (value.shape, value.dtype) == (tensor.shape, tensor.dtype) and not tensor.is_meta:
            with torch.no_grad():
                tensor.copy_(value)
            placed.add(path)
    return placed, why


def _read(path: Path, digests: Collection[str]) -> tuple[dict[str, Tensor], str]:
    """Return tables of a file by digest, and why others are not there."""
    if not path.is_file():
        return {}, f"The graph was saved with a file of such values, {path.name}, which is not beside the graph file."
    try:
        held, _ = tensor_file.read(path, digests)
    except tensor_file.TensorFileError as error:
        return {}, f"{path.name} beside the graph file is damaged: {error}."
    found = {digest: tensor for digest, tensor in held.items() if digest_of(tensor) == digest}
    if len(found) < len(held):
        return (
            found,
            f"{path.name} beside the graph file is damaged: its values have another digest than the graph says.",
        )
    return found, "" if len(found) == len(digests) else f"{path.name} beside the graph file does not have them."


def _tables(graph: NodeGraph) -> Iterator[tuple[str, str]]:
    """Yield the tensor and the digest of each node whose values the document does not keep."""
    for path, node in nodes_by_path(graph):
        if node.absent.startswith(DIGEST):
            yield path, node.absent
