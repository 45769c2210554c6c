"""Decides which proofs of imported nodes a change invalidates.

A node that was proved equal to its original was so with the properties that it had, fed as it was, with what was
inside it. A change of one of these leaves the proof ``"edited"``; undo brings it back.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.model.ops import (
    AddGraph,
    AddNode,
    Connect,
    Disconnect,
    Op,
    RemoveNode,
    RenameNode,
    ResetProperty,
    SetOrigin,
    SetProperty,
)

_Place = tuple[str, str]
"""The id of a graph, and the name of a node in it."""


def disproved(content: Content, done: Sequence[Op], inverses: Sequence[Sequence[Op]]) -> list[SetOrigin]:
    """Return the ops that mark the imported nodes of which a proof no longer speaks.

    Args:
        content: The document after the change.
        done: The ops of the change.
        inverses: What takes each of them back.
    """
    changed: dict[_Place, None] = {}
    new: set[_Place] = set()
    made: set[str] = set()
    pending: list[str] = []  # graphs in which something else is computed now
    for op, inverse in zip(done, inverses, strict=True):
        match op:
            case AddGraph(graph):
                made.add(graph)
            case AddNode(name=name, graph=graph):
                new.add((graph, name))
                pending.append(graph)
            case RemoveNode(_, graph):
                pending.append(graph)
                changed.update(dict.fromkeys(_fed(inverse)))
            case RenameNode(name, new_name, graph):
                for places in (changed, new):
                    _rename(places, (graph, name), (graph, new_name))
            case SetProperty(node=name, graph=graph) | ResetProperty(node=name, graph=graph):
                if op not in inverse and not _shows_the_same(content, op, inverse):
                    changed[graph, name] = None
                changed.update(dict.fromkeys(_fed(inverse)))
            case Connect(_, target, graph) | Disconnect(_, target, graph):
                changed[graph, split_port(target)[0]] = None
            case _:
                pass
    # What is added comes with its own proof: a node that is pasted, or moved into a group.
    pending += [graph for graph, _ in changed]
    marked = {place: None for place in changed if place not in new}
    seen = set(made)
    while pending:
        graph = pending.pop()
        if graph not in seen:
            seen.add(graph)
            around = [(user.id, name) for user, name in content.users_of(graph)]
            marked.update(dict.fromkeys(around))
            pending += [user for user, _ in around]
    found = ((graph, _node(content, graph, name)) for graph, name in marked)
    return [
        SetOrigin(node.name, msgspec.structs.replace(node.origin, proof="edited"), graph)
        for graph, node in found
        if node is not None
        and node.type not in ("Input", "Output")
        and node.origin is not None
        and node.origin.proof == "equal"
    ]


def _fed(inverse: Sequence[Op]) -> list[_Place]:
    """Return the nodes that an op took an edge from."""
    return [(op.graph, split_port(op.target)[0]) for op in inverse if isinstance(op, Connect)]


def _rename(places: dict[_Place, None] | set[_Place], old: _Place, name: _Place) -> None:
    if old not in places:
        return
    if isinstance(places, set):
        places.discard(old)
        places.add(name)
    else:
        del places[old]
        places[name] = None


def _shows_the_same(content: Content, op: SetProperty | ResetProperty, inverse: Sequence[Op]) -> bool:
    """Return whether a block has got a definition of its own that is a copy of the one that it had."""
    if not isinstance(op, SetProperty) or op.property != "definition":
        return False
    before = next((other.value for other in inverse if isinstance(other, SetProperty)), None)
    if not isinstance(before, str) or before not in content.graphs:
        return False
    old, new = content.graphs[before], content.graphs[str(op.value)]
    return list(map(_what, old.nodes.values())) == list(map(_what, new.nodes.values())) and (
        set(old.edges.values()) == set(new.edges.values())
    )


def _what(node: Node) -> tuple[object, ...]:
    return node.name, node.type, dict(node.properties), node.origin


def _node(content: Content, graph: str, name: str) -> Node | None:
    found = content.graphs.get(graph)
    return None if found is None else found.nodes.get(name)
