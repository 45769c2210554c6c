"""Finds the nodes that can be converted to lower precision, and why others cannot; converts them in a document."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from msgspec.structs import replace
from torch import nn

from pnne_nb.catalog.quantized import Kind
from pnne_nb.compiler.passes.graph_pass import PassSubject, borrowed, consumers
from pnne_nb.compiler.pipeline.compile import compile as compile_graph
from pnne_nb.compiler.weights.weight_source import keep_given
from pnne_nb.errors import Diagnostic, ExportError
from pnne_nb.export.quantization.scheme import ConvertedLayer, unfit
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.model.ops import AddNode, Connect, Op, RemoveNode, SetOrigin
from pnne_nb.graph.schema.structural import MODULE_PROPERTIES

_PRODUCTS = frozenset(
    {"matmul", "bmm", "mm", "addmm", "baddbmm", "einsum", "linear", "bilinear", "scaled_dot_product_attention"}
)
"""Functions that multiply tensors."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that can be converted.

    Attributes:
        path: Its path; of a node in a block that is used with the same weights again, that of its first use.
        graph: The graph that holds it.
        name: Its name there.
        module: Path of its module in the model.
    """

    path: str
    graph: str
    name: str
    module: str


def require_inference_graph(graph: NodeGraph) -> None:
    """Raise an error for a graph with training nodes.

    Raises:
        ExportError: If there are any; the diagnostics name them.
    """
    nodes = [node for node in graph.nodes.values() if node.spec.kind == "training"]
    if nodes:
        listed = ", ".join(node.name for node in nodes)
        message = f"{listed}: the graph describes a training, and only a model can be quantised"
        models = [node.name for node in graph.nodes.values() if node.type == "Subgraph"]
        hint = f"Give the model alone: pn.quantize(graph[{models[0]!r}] ...)" if models else "Give the model alone."
        findings = [Diagnostic("training-node", message, node.name, hint=hint) for node in nodes]
        raise ExportError(
            f"{message}. Train it with pn.TrainingEngine.from_graph(graph), and pass the engine.", findings
        )


def separate_uses(graph: NodeGraph) -> NodeGraph:
    """Return a copy of a document in which each use of a block has its own definition, so that uses may differ.

    A block that takes the weights of another one keeps its definition, because both compute with the same numbers.
    """
    graph = copy.copy(graph)
    pending = [("", "")]
    while pending:
        id, prefix = pending.pop()
        nodes = graph.graphs[id].nodes
        lenders = {node.shares for node in nodes.values()}
        for name, node in nodes.items():
            if node.type == "Subgraph" and node.shares is None and name not in lenders:
                own = graph.make_own(f"{prefix}{name}")
                assert own.definition is not None, "it is a block"
                pending.append((own.definition, f"{prefix}{name}."))
    return graph


def find_candidates(subject: PassSubject, kind: Kind) -> tuple[list[Candidate], dict[str, str]]:
    """Return the nodes that can be converted, and why other nodes with weights or products cannot, by path."""
    found: list[Candidate] = []
    skipped: dict[str, str] = {}
    for id, snapshot in subject.snapshots.items():
        lent = borrowed(subject, id)
        for name, node in snapshot.nodes.items():
            paths = subject.paths(id, name)
            if not paths or node.definition in subject.snapshots:
                continue
            why = _refusal(subject, node, paths, lent, kind)
            if why is None:
                continue
            if why:
                skipped.update(dict.fromkeys(paths, why))
            else:
                found.append(Candidate(paths[0], id, name, subject.module_path(paths[0])))
    return found, skipped


def _refusal(subject: PassSubject, node: Node, paths: tuple[str, ...], lent: set[str], kind: Kind) -> str | None:
    """Return why a node cannot be converted; empty if it can; None if there is nothing to convert."""
    if node.type in _PRODUCTS:
        return "it multiplies two computed tensors, for which there is no kernel of lower precision here"
    if node.type in {"Input", "Output"} or node.spec.kind not in {"module", "structural"}:
        return None
    known = dict(subject.model.named_modules())
    layers = [known[held] for held in dict.fromkeys(map(subject.module_path, paths)) if held in known]
    if not any(parameter.dim() > 1 for layer in layers for parameter in layer.parameters()):
        return None
    if node.shares is not None:
        return f"it computes with the weights of {node.shares!r}, which are needed as they are"
    if node.name in lent:
        return "other nodes compute with its weights, so they are needed as they are"
    if node.type in {"Subgraph", "Module"}:
        return "it is a module that is kept as it is, because its code is not drawn"
    if len(layers) > 1:
        return "its block is drawn once for several pairs of blocks that share weights: ungroup them"
    return unfit(layers[0], kind)


def rewrite(
    subject: PassSubject, candidates: Sequence[Candidate], converted: Mapping[str, ConvertedLayer]
) -> tuple[NodeGraph, nn.Module]:
    """Return a copy of the subject's document with converted nodes, and its model; all other weights are those of before.

    Args:
        subject: The document and its float model.
        candidates: The nodes to convert.
        converted: What takes the place of their modules, by path of the module.
    """
    graph = copy.copy(subject.graph)
    for each in candidates:
        _replace(graph, subject, each, converted[each.module])
    _untie(graph, {each.module for each in candidates})
    model = compile_graph(graph, reuse=subject.model)
    tensors = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    with torch.no_grad():
        for each in candidates:
            for name, value in converted[each.module].tensors.items():
                tensors[f"{each.module}.{name}"].copy_(value)
    model.eval().requires_grad_(False)
    keep_given(graph, model, "the quantised model")
    return graph, model


def _replace(graph: NodeGraph, subject: PassSubject, candidate: Candidate, layer: ConvertedLayer) -> None:
    """Replace a node; its edges, its position and its other attributes stay."""
    id, name = candidate.graph, candidate.name
    snapshot = subject.snapshots[id]
    node = snapshot.nodes[name]
    (source,) = snapshot.wires[name].values()
    kept = {each.name: node.properties[each.name] for each in MODULE_PROPERTIES if each.name in node.properties}
    place = list(graph.graphs[id].nodes).index(name)
    # Its module stays where it was, in a list for example, and its weights are its own.
    origin = None if node.origin is None else replace(node.origin, proof="edited", ties={}, dtype=None)
    ops: list[Op] = [
        RemoveNode(name, id),
        AddNode(name, layer.type, {**kept, **layer.properties}, node.position, id, place, origin=origin),
        Connect(f"{source.node}.{source.port}", f"{name}.input", id),
    ]
    ops += [Connect(f"{name}.output", f"{node}.{port}", id) for node, port in consumers(subject, id, name)]
    graph.apply(ops)


def _untie(graph: NodeGraph, converted: Collection[str]) -> None:
    """Let what shared a weight with a converted layer have its own, in float."""
    for id, content in graph.graphs.items():
        for name, node in content.nodes.items():
            ties = {} if node.origin is None else node.origin.ties
            left = {below: other for below, other in ties.items() if other.rpartition(".")[0] not in converted}
            if node.origin is not None and left != ties:
                graph.apply([SetOrigin(name, replace(node.origin, ties=left), id)])
