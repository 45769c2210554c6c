"""Extracts parts of a training graph as documents: the model, and the computation of losses and metrics."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import split_port
from pnne_nb.runtime.training_graph.split import End


def extract(graph: NodeGraph, definition: str, name: str) -> NodeGraph:
    """Return a definition of a document as a document of that name."""
    document = json.loads(graph.to_json())
    return _made(document, name, document["graphs"][definition])


def cut(
    graph: NodeGraph, name: str, inner: AbstractSet[str], outer: Mapping[End, str], ends: Iterable[End]
) -> NodeGraph:
    """Return some root nodes of a document as a document.

    Args:
        graph: The document.
        name: Of the new one.
        inner: Names of the nodes.
        outer: What feeds them from outside, and what the Input for it is called.
        ends: What becomes an Output, in this order.
    """
    document = json.loads(graph.to_json())
    root = document["graphs"][""]
    sources = {end: f"{_free(entry, inner)}.output" for end, entry in outer.items()}
    nodes: list[dict[str, Any]] = [{"name": _free(entry, inner), "type": "Input"} for entry in outer.values()]
    nodes += [node for node in root.get("nodes", ()) if node["name"] in inner]
    edges = []
    for edge in root.get("edges", ()):
        if split_port(edge["target"])[0] in inner:
            source = split_port(edge["source"])
            edges.append({"source": sources.get(source, edge["source"]), "target": edge["target"]})
    for index, end in enumerate(ends):
        output = _free(f"result{index}", inner)
        nodes.append({"name": output, "type": "Output"})
        edges.append({"source": sources.get(end, ".".join(end)), "target": f"{output}.input"})
    return _made(document, name, {"nodes": nodes, "edges": edges})


def _made(document: Mapping[str, Any], name: str, root: Mapping[str, Any]) -> NodeGraph:
    """Return a document with that root graph and the definitions that it needs."""
    graphs: dict[str, Mapping[str, Any]] = {"": root}
    pending = [root]
    while pending:
        for node in pending.pop().get("nodes", ()):
            holds = node["type"] in ("Subgraph", "Module")
            shown = node.get("properties", {}).get("definition") if holds else None
            if shown is not None and shown not in graphs:
                graphs[shown] = document["graphs"][shown]
                pending.append(graphs[shown])
    return NodeGraph.from_json(json.dumps({**document, "name": name, "graphs": graphs}))


def _free(name: str, taken: AbstractSet[str]) -> str:
    while name in taken:
        name += "_"
    return name
