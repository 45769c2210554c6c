"""Replaces layers of a document by converted ones, and compiles it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from pnne_nb.compiler.passes.graph_pass import PassSubject, consumers
from pnne_nb.compiler.pipeline.compile import compile as compile_graph
from pnne_nb.compiler.weights.weight_source import keep_given
from pnne_nb.export.quantization.candidates import Candidate
from pnne_nb.export.quantization.scheme import ConvertedLayer
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.ops import AddNode, Connect, Op, RemoveNode
from pnne_nb.graph.schema.structural import MODULE_PROPERTIES


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
    model = compile_graph(graph, reuse=subject.model)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with torch.no_grad():
        for each in candidates:
            for name, value in converted[each.module].tensors.items():
                tensors[f"{each.module}.{name}"].copy_(value)
    model.eval().requires_grad_(False)
    keep_given(graph, model, "the quantised model", strongly=True)
    return graph, model


def _replace(graph: NodeGraph, subject: PassSubject, candidate: Candidate, layer: ConvertedLayer) -> None:
    """Replace a node; its edges, its position and its other attributes stay."""
    id, name = candidate.graph, candidate.name
    snapshot = subject.snapshots[id]
    node = snapshot.nodes[name]
    (source,) = snapshot.wires[name].values()
    kept = {each.name: node.properties[each.name] for each in MODULE_PROPERTIES if each.name in node.properties}
    place = list(graph.graphs[id].nodes).index(name)
    ops: list[Op] = [
        RemoveNode(name, id),
        AddNode(name, layer.type, {**kept, **layer.properties}, node.position, id, place),
        Connect(f"{source.node}.{source.port}", f"{name}.input", id),
    ]
    ops += [Connect(f"{name}.output", f"{node}.{port}", id) for node, port in consumers(subject, id, name)]
    graph.apply(ops)
