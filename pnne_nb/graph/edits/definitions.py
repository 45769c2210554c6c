"""Copies definitions: into another document, with the definitions that they use, or for one node; replaces all of them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import asdict, replace

from pnne_nb.graph.model.content import Content, GraphIndex
from pnne_nb.graph.model.node import Node, adding
from pnne_nb.graph.model.ops import (
    AddFrame,
    AddGraph,
    AddNode,
    Connect,
    Op,
    RemoveFrame,
    RemoveGraph,
    RemoveNode,
    ResetProperty,
    SetProperty,
)
from pnne_nb.graph.schema.names import free_name


def graft(source: Content, definition: str, target: Content, within: str, wanted: str = "") -> tuple[list[Op], str]:
    """Return the ops that add a definition to `target`, and its id there.

    An equal definition in `target` is used as it is. A different definition of the same name stays, and the new one gets a
    free name. The browser pastes by the same rule (``js/src/editor/document/fragment.ts``).

    Args:
        source: The document of the definition.
        definition: Its id.
        target: The document that receives it.
        within: The graph in `target` that will show it; a definition is never put inside itself.
        wanted: Its id in `target`, if that should be another one.
    """
    ids: dict[str, str] = {}
    taken = set(target.graphs)
    ops: list[Op] = []
    for id in _inside_out(source, definition):
        name = wanted if wanted and id == definition else id
        graph, own = source.graphs[id], target.graphs.get(name)
        if own is not None and _reads(own, {}) == _reads(graph, ids) and not target.contains(name, within):
            ids[id] = name
            continue
        ids[id] = free_name(name, taken)
        taken.add(ids[id])
        ops += _copy(graph, ids[id], ids)
    return ops, ids[definition]


def own_definition(content: Content, graph: GraphIndex, node: Node, definition: str) -> list[Op]:
    """Return the ops that give a Subgraph node its own copy of its definition, with a free name.

    There are none if no other node shows the definition. Nested definitions stay shared. The browser does the same
    (``js/src/editor/document/definitions.ts``).
    """
    if len(content.users_of(definition)) < 2:
        return []
    own = free_name(definition, content.graphs)
    ops = _copy(content.graphs[definition], own, {})
    # Only nodes that show the same can share weights: those that shared with this one now share among themselves.
    if node.shares is not None:
        ops.append(ResetProperty(node.name, "shares", graph.id))
    heir, *others = [name for name in graph.order if name in graph.sharers.get(node.name, ())] or [""]
    if heir:
        ops.append(ResetProperty(heir, "shares", graph.id))
    ops += [SetProperty(other, "shares", heir, graph.id) for other in others]
    return [*ops, SetProperty(node.name, "definition", own, graph.id)]


def replacing(content: Content, new: Content) -> list[Op]:
    """Return the ops that make the graphs of a document those of another; nodes of the same name stay where they are.

    Args:
        content: The document; the root shows all of its definitions.
        new: The other one.
    """
    ops: list[Op] = []
    for id in reversed(_inside_out(content, "")):
        graph = content.graphs[id]
        ops += [RemoveNode(name, id) for name in reversed(graph.order)]
        ops += [RemoveFrame(name, id) for name in graph.frames]
        ops += [RemoveGraph(id)] if id else []
    for id in _inside_out(new, ""):
        before = content.graphs[id].nodes if id in content.graphs else {}
        for op in _copy(new.graphs[id], id, {}):
            if isinstance(op, AddNode) and op.name in before:
                op = replace(op, position=before[op.name].position, collapsed=before[op.name].collapsed)
            ops += [op] if id or not isinstance(op, AddGraph) else []
    return ops


def _inside_out(content: Content, definition: str) -> list[str]:
    """Return a definition and all definitions inside it, inner ones first."""
    found: dict[str, None] = {}
    pending = [(definition, False)]
    while pending:
        id, entered = pending.pop()
        if entered:
            found[id] = None
        elif id not in found:
            pending.append((id, True))
            pending += [(shown, False) for shown in content.graphs[id].shown]
    return list(found)


def _copy(graph: GraphIndex, id: str, ids: Mapping[str, str]) -> list[Op]:
    ops: list[Op] = [AddGraph(id)]
    for name in graph.order:
        node = graph.nodes[name]
        properties = {key: value for key, value in _properties(node, ids).items() if key != "shares"}
        ops.append(replace(adding(node, id), properties=properties))
    # A node can share only with a node that exists already.
    ops += [
        SetProperty(name, "shares", node.shares, id) for name, node in graph.nodes.items() if node.shares is not None
    ]
    ops += [Connect(edge.source, edge.target, id) for edge in graph.edges.values()]
    return [*ops, *(AddFrame(**asdict(frame), graph=id) for frame in graph.frames.values())]


def _reads(graph: GraphIndex, ids: Mapping[str, str]) -> object:
    """Return the nodes and edges of a definition for a comparison, without the places of nodes."""
    nodes = [(name, graph.nodes[name].type, _properties(graph.nodes[name], ids)) for name in graph.order]
    return nodes, sorted(graph.edges.values())


def _properties(node: Node, ids: Mapping[str, str]) -> dict[str, object]:
    if node.definition is None:
        return dict(node.properties)
    return {**node.properties, "definition": ids.get(node.definition, node.definition)}
