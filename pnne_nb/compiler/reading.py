"""A consistent snapshot of what a document draws, with wires by node and nodes in order of execution."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Mapping
from typing import final

import msgspec

from pnne_nb.compiler.program import Ref
from pnne_nb.errors import CompileError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.lint import MAX_NESTED, TOO_DEEP
from pnne_nb.graph.node import Edge, Node, split_port

NO_WIRES: Mapping[str, Ref] = {}


@final
class Drawing(msgspec.Struct, frozen=True):
    """One definition as it is drawn.

    Attributes:
        id: Its id, ``""`` for the outermost graph.
        nodes: By name, in their order.
        wires: By node and input port, where the value comes from.
        followers: By node, the nodes that it feeds.
        order: Names of the nodes, each after those that feed it, otherwise in the order of `nodes`; in-place
            functions therefore run in the order in which they were drawn.
        edges: What the wires were made of.
    """

    id: str
    nodes: dict[str, Node]
    wires: dict[str, dict[str, Ref]]
    followers: dict[str, list[str]]
    order: tuple[str, ...]
    edges: tuple[Edge, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the Input nodes."""
        return tuple(name for name, node in self.nodes.items() if node.type == "Input")

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the Output nodes."""
        return tuple(name for name, node in self.nodes.items() if node.type == "Output")


NO_DRAWINGS: Mapping[str, Drawing] = {}


def read(graph: NodeGraph, before: Mapping[str, Drawing] = NO_DRAWINGS) -> dict[str, Drawing]:
    """Return the outermost graph and every definition it uses, each before those that use it.

    Args:
        graph: The document.
        before: What was read of an earlier version; what is still the same is the same object.

    Raises:
        CompileError: If definitions are nested deeper than Python can call.
    """
    drawings: dict[str, Drawing] = {}
    with graph.reading():
        _read(graph, "", drawings, before, 0)
    depths: dict[str, int] = {}
    for id, drawing in drawings.items():
        depths[id] = 1 + max((depths.get(node.definition or "", 0) for node in drawing.nodes.values()), default=0)
    if depths[""] > MAX_NESTED:
        raise CompileError(str(TOO_DEEP), [TOO_DEEP])
    return drawings


def read_one(graph: NodeGraph, id: str, before: Drawing | None = None) -> Drawing:
    """Return one definition as it is drawn now: `before` itself, if it still is."""
    view = graph.graphs[id]
    nodes, edges = view.nodes.copy(), view.edges
    if before is not None and before.edges == edges and before.nodes.keys() == nodes.keys():
        if all(map(operator.is_, before.nodes.values(), nodes.values())):
            return before
        if tuple(before.nodes) == tuple(nodes):
            return Drawing(id, nodes, before.wires, before.followers, before.order, edges)
    wires: dict[str, dict[str, Ref]] = {}
    for source, target in edges:
        node, port = split_port(target)
        wires.setdefault(node, {})[port] = Ref(*split_port(source))
    return Drawing(id, nodes, wires, *_order(nodes, wires), edges)


def paths_of(drawings: Mapping[str, Drawing]) -> dict[str, list[str]]:
    """Return, for each definition, the paths of its uses with a dot after each; ``""`` for the root."""
    paths: dict[str, list[str]] = {id: [] for id in drawings}
    paths[""].append("")
    # Users stand after what they use.
    for drawing in reversed(list(drawings.values())):
        for node in drawing.nodes.values():
            if node.definition in drawings and node.definition is not None:
                paths[node.definition] += [f"{prefix}{node.name}." for prefix in paths[drawing.id]]
    return paths


def size_of(drawings: Mapping[str, Drawing]) -> int:
    """Count the nodes of a document, each use of a definition counted."""
    sizes: dict[str, int] = {}
    for id, drawing in drawings.items():
        sizes[id] = sum(1 + sizes.get(node.definition or "", 0) for node in drawing.nodes.values())
    return sizes[""]


def _read(graph: NodeGraph, id: str, drawings: dict[str, Drawing], before: Mapping[str, Drawing], depth: int) -> None:
    if depth > MAX_NESTED:
        raise CompileError(str(TOO_DEEP), [TOO_DEEP])
    drawing = read_one(graph, id, before.get(id))
    for node in drawing.nodes.values():
        if node.definition is not None and node.definition not in drawings and node.definition in graph.graphs:
            _read(graph, node.definition, drawings, before, depth + 1)
    drawings[id] = drawing


def _order(
    nodes: Mapping[str, Node], wires: Mapping[str, Mapping[str, Ref]]
) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    rank = {name: index for index, name in enumerate(nodes)}
    names = list(nodes)
    waiting: dict[str, int] = {}
    followers: dict[str, list[str]] = {}
    as_drawn = True
    for name, incoming in wires.items():
        sources = {ref.node for ref in incoming.values()}
        waiting[name] = len(sources)
        for source in sources:
            followers.setdefault(source, []).append(name)
            as_drawn = as_drawn and rank[source] < rank[name]
    if as_drawn:
        return followers, tuple(names)
    ready = [index for index, name in enumerate(names) if not waiting.get(name)]
    order = []
    while ready:
        name = names[heapq.heappop(ready)]
        order.append(name)
        for follower in followers.get(name, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, rank[follower])
    return followers, tuple(order)
