"""Brings snapshots up to date by the ops of a change, without reading the whole document again.

Orders are kept as they are where they still fit, so they may differ from those of `read`, which run in-place functions
in the order in which they were added: for shapes that makes no difference, for code it would.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, final

from pnne_nb.compiler.ir.program import Ref
from pnne_nb.compiler.ir.snapshot import GraphSnapshot
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Edge, Node, split_port
from pnne_nb.graph.model.ops import (
    AddNode,
    Connect,
    Disconnect,
    LookOp,
    Op,
    RemoveNode,
    RenameDocument,
    ResetProperty,
    SetOrigin,
    SetProperty,
    SetSize,
)

STRUCTURAL: Final = ("definition", "shares")
"""Properties that join a node with others."""

_PORTS: Final = ("Input", "Output")
"""Types whose nodes are ports of the graph that they are in."""


def patched(
    before: Mapping[str, GraphSnapshot], graph: NodeGraph, ops: Iterable[Op]
) -> dict[str, GraphSnapshot] | None:
    """Return the snapshots after `ops`, or None where only reading the whole graph again tells.

    The caller holds the lock of `graph`, which has the ops already; `before` stays as it is.
    """
    drafts: dict[str, _Draft] = {}
    for op in ops:
        if isinstance(op, (LookOp, RenameDocument, SetSize)):
            continue
        id = getattr(op, "graph", None)
        if not isinstance(id, str) or id not in before or id not in graph.graphs:
            return None
        draft = drafts.setdefault(id, _Draft(before[id]))
        if not draft.follow(op, graph.graphs[id].nodes):
            return None
    return {**before, **{id: draft.snapshot(graph) for id, draft in drafts.items()}}


@final
class _Draft:
    """A snapshot that ops are applied to; what it has in common with the one before is not copied."""

    def __init__(self, before: GraphSnapshot) -> None:
        self._id = before.id
        self._before = before
        self._nodes = before.nodes.copy()
        self._wires = before.wires
        self._followers = before.followers
        self._order = before.order
        self._rank: dict[str, int] | None = None

    def follow(self, op: Op, now: Mapping[str, Node]) -> bool:
        """Apply an op; return whether that was possible."""
        match op:
            case SetOrigin(name=name):
                return self._replace(name, now)
            case SetProperty(node=name) | ResetProperty(node=name):
                return op.property not in STRUCTURAL and self._replace(name, now)
            case Connect(source=source, target=target):
                return self._connect(Edge(source, target))
            case Disconnect(source=source, target=target):
                return self._disconnect(Edge(source, target))
            case AddNode(name=name, index=index):
                return self._add(name, index, now)
            case RemoveNode(name=name):
                return self._remove(name)
        return False

    def _rewire(self) -> None:
        """Copy the wires before the first change, because unchanged ones are shared with the snapshot before."""
        if self._wires is self._before.wires:
            self._wires, self._followers = self._wires.copy(), self._followers.copy()

    def snapshot(self, graph: NodeGraph) -> GraphSnapshot:
        """Return the snapshot as it is now."""
        edges = graph.graphs[self._id].edges
        return GraphSnapshot(self._id, self._nodes, self._wires, self._order, edges).with_followers(self._followers)

    def _replace(self, name: str, now: Mapping[str, Node]) -> bool:
        if name not in now or name not in self._nodes:
            return False  # it is gone, or has another name meanwhile
        self._nodes[name] = now[name]
        return True

    def _connect(self, edge: Edge) -> bool:
        source, target = Ref(*split_port(edge.source)), split_port(edge.target)
        if self._rank is None:
            self._rank = {name: place for place, name in enumerate(self._order)}
        if self._rank.get(source.node, len(self._order)) >= self._rank.get(target[0], -1):
            return False
        self._rewire()
        known = self._wires.get(target[0], {})
        self._wires[target[0]] = {**known, target[1]: source}
        if all(ref.node != source.node for ref in known.values()):
            self._followers[source.node] = [*self._followers.get(source.node, ()), target[0]]
        return True

    def _disconnect(self, edge: Edge) -> bool:
        source, (target, port) = split_port(edge.source)[0], split_port(edge.target)
        self._rewire()
        left = {other: ref for other, ref in self._wires.get(target, {}).items() if other != port}
        self._wires[target] = left
        if all(ref.node != source for ref in left.values()):
            self._followers[source] = [name for name in self._followers.get(source, ()) if name != target]
        return True

    def _add(self, name: str, index: int | None, now: Mapping[str, Node]) -> bool:
        node = now.get(name)
        if node is None or name in self._nodes or _joins_others(node):
            return False
        self._nodes[name] = node
        place = len(self._order) if index is None else index
        self._order = (*self._order[:place], name, *self._order[place:])
        self._rank = None
        return True

    def _remove(self, name: str) -> bool:
        node = self._nodes.get(name)
        if node is None or _joins_others(node) or any(other.shares == name for other in self._nodes.values()):
            return False
        self._rewire()
        for port, ref in self._wires.get(name, {}).items():
            self._disconnect(Edge(f"{ref.node}.{ref.port}", f"{name}.{port}"))
        for follower in self._followers.get(name, ()):
            self._wires[follower] = {
                port: ref for port, ref in self._wires.get(follower, {}).items() if ref.node != name
            }
        del self._nodes[name]
        self._wires.pop(name, None)
        self._followers.pop(name, None)
        self._order = tuple(other for other in self._order if other != name)
        self._rank = None
        return True


def _joins_others(node: Node) -> bool:
    """Return whether more than its edges joins a node with the rest of the document."""
    return node.type in _PORTS or node.definition is not None or node.shares is not None
