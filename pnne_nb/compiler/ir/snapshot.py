"""Takes a consistent snapshot of a document: wires by node, and nodes in execution order."""

from __future__ import annotations

import functools
import heapq
import operator
from collections.abc import Mapping
from typing import Self, final

import msgspec

from pnne_nb.compiler.ir.program import Ref
from pnne_nb.errors import CompileError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.content import OWN_PORTS
from pnne_nb.graph.model.lint import MAX_NESTED, TOO_DEEP
from pnne_nb.graph.model.node import Edge, Node
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.spec import AUTO

NO_WIRES: Mapping[str, Ref] = {}


@final
class GraphSnapshot(msgspec.Struct, frozen=True, dict=True):  # dict: for what is derived once from the fields
    """Snapshot of one definition.

    Attributes:
        id: Its id, ``""`` for the outermost graph.
        nodes: By name, in their order.
        wires: By node and input port, where the value comes from.
        order: Names of the nodes, each after those that feed it, otherwise in the order of `nodes`; in-place
            functions therefore run in the order in which they were added.
        edges: What the wires were made of.
    """

    id: str
    nodes: dict[str, Node]
    wires: dict[str, dict[str, Ref]]
    order: tuple[str, ...]
    edges: tuple[Edge, ...]

    @functools.cached_property
    def followers(self) -> dict[str, list[str]]:
        """The nodes that each node feeds."""
        return _followers(self.wires)

    def with_followers(self, followers: dict[str, list[str]]) -> Self:
        """Return this snapshot with its followers, which are known already and need not be looked for."""
        vars(self)["followers"] = followers
        return self

    @functools.cached_property
    def types(self) -> frozenset[str]:
        """The types of the nodes."""
        return frozenset([node.type for node in self.nodes.values()])

    @functools.cached_property
    def property_names(self) -> frozenset[str]:
        """Names of the properties that some node sets; what none sets need not be looked for in each."""
        return frozenset[str]().union(*[node.properties for node in self.nodes.values()])

    @functools.cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the Input nodes."""
        return tuple([name for name, node in self.nodes.items() if node.type == "Input"])

    @functools.cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the Output nodes."""
        return tuple([name for name, node in self.nodes.items() if node.type == "Output"])

    @functools.cached_property
    def blocks(self) -> tuple[tuple[Node, str], ...]:
        """The nodes that show or hold a graph, with its id."""
        if self.types.isdisjoint(OWN_PORTS):
            return ()
        some = [node for node in self.nodes.values() if node.type in OWN_PORTS]
        return tuple([(node, node.definition) for node in some if node.definition is not None])

    @functools.cached_property
    def automatic(self) -> dict[str, list[str]]:
        """The properties that are left to shape inference, by node."""
        some = {type: registry.get(type) for type in self.types}
        inferable = {type: spec.inferable for type, spec in some.items() if spec is not None and spec.kind == "module"}
        found: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            for prop in inferable.get(node.type, ()):
                if node.properties.get(prop.name, prop.default) == AUTO:
                    found.setdefault(name, []).append(prop.name)
        return found

    @functools.cached_property
    def is_drawn(self) -> bool:
        """Whether no node comes from an imported module."""
        return all(node.origin is None for node in self.nodes.values())


NO_SNAPSHOTS: Mapping[str, GraphSnapshot] = {}


def read(graph: NodeGraph, before: Mapping[str, GraphSnapshot] = NO_SNAPSHOTS) -> dict[str, GraphSnapshot]:
    """Return snapshots of the outermost graph and of every definition in use, each before its users.

    Args:
        graph: The document.
        before: What was read of an earlier version; what is still the same is the same object.

    Raises:
        CompileError: If definitions are nested deeper than Python can call.
    """
    snapshots: dict[str, GraphSnapshot] = {}
    with graph.reading():
        _read(graph, "", snapshots, before, 0)
    depths: dict[str, int] = {}
    for id, snapshot in snapshots.items():
        depths[id] = 1 + max((depths.get(definition, 0) for _, definition in snapshot.blocks), default=0)
    if depths[""] > MAX_NESTED:
        raise CompileError(str(TOO_DEEP), [TOO_DEEP])
    return snapshots


def read_one(graph: NodeGraph, id: str, before: GraphSnapshot | None = None) -> GraphSnapshot:
    """Return a snapshot of one definition: `before` itself if nothing has changed."""
    view = graph.graphs[id]
    nodes, edges = view.nodes.copy(), view.edges
    if before is not None and before.edges == edges and before.nodes.keys() == nodes.keys():
        if all(map(operator.is_, before.nodes.values(), nodes.values())):
            return before
        if tuple(before.nodes) == tuple(nodes):
            return GraphSnapshot(id, nodes, before.wires, before.order, edges).with_followers(before.followers)
    wires: dict[str, dict[str, Ref]] = {}
    for source, target in edges:
        giver, _, output = source.partition(".")
        node, _, port = target.partition(".")
        incoming = wires.get(node)
        if incoming is None:
            wires[node] = {port: Ref(giver, output)}
        else:
            incoming[port] = Ref(giver, output)
    return GraphSnapshot(id, nodes, wires, _order(nodes, wires), edges)


def paths_of(snapshots: Mapping[str, GraphSnapshot]) -> dict[str, list[str]]:
    """Return the paths of all uses of each definition, each with a final dot; ``""`` for the root."""
    paths: dict[str, list[str]] = {id: [] for id in snapshots}
    paths[""].append("")
    # Users stand after what they use.
    for snapshot in reversed(list(snapshots.values())):
        for node, definition in snapshot.blocks:
            if definition in snapshots:
                paths[definition] += [f"{prefix}{node.name}." for prefix in paths[snapshot.id]]
    return paths


def size_of(snapshots: Mapping[str, GraphSnapshot]) -> int:
    """Return the number of nodes of a document, with each use of a definition counted."""
    sizes: dict[str, int] = {}
    for id, snapshot in snapshots.items():
        sizes[id] = len(snapshot.nodes) + sum(sizes.get(definition, 0) for _, definition in snapshot.blocks)
    return sizes[""]


def _read(
    graph: NodeGraph, id: str, snapshots: dict[str, GraphSnapshot], before: Mapping[str, GraphSnapshot], depth: int
) -> None:
    if depth > MAX_NESTED:
        raise CompileError(str(TOO_DEEP), [TOO_DEEP])
    snapshot = read_one(graph, id, before.get(id))
    for _, definition in snapshot.blocks:
        if definition not in snapshots and definition in graph.graphs:
            _read(graph, definition, snapshots, before, depth + 1)
    snapshots[id] = snapshot


def _followers(wires: Mapping[str, Mapping[str, Ref]]) -> dict[str, list[str]]:
    followers: dict[str, list[str]] = {}
    for name, incoming in wires.items():
        for source in dict.fromkeys([ref.node for ref in incoming.values()]):
            followers.setdefault(source, []).append(name)
    return followers


def _order(nodes: Mapping[str, Node], wires: Mapping[str, Mapping[str, Ref]]) -> tuple[str, ...]:
    names = tuple(nodes)
    rank = dict(zip(names, range(len(names)), strict=True))
    if all(rank[ref.node] < rank[name] for name, incoming in wires.items() for ref in incoming.values()):
        return names  # as they were drawn
    followers = _followers(wires)
    waiting = {name: len({ref.node for ref in incoming.values()}) for name, incoming in wires.items()}
    ready = [index for index, name in enumerate(names) if not waiting.get(name)]
    order = []
    while ready:
        name = names[heapq.heappop(ready)]
        order.append(name)
        for follower in followers.get(name, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                heapq.heappush(ready, rank[follower])
    return tuple(order)


def passed_on(snapshot: GraphSnapshot, snapshots: Mapping[str, GraphSnapshot], name: str) -> Ref | None:
    """Return what arrives at the first input of a node, in the order of its ports: what it gives on if it does not run."""
    wires, node = snapshot.wires.get(name, NO_WIRES), snapshot.nodes[name]
    inside = snapshots.get(node.definition or "") if node.definition is not None else None
    ports = [port.name for port in registry[node.type].inputs] if inside is None else inside.inputs
    return next((wires[port] for port in (*ports, *sorted(wires)) if port in wires), None)
