"""Decides which proofs of imported nodes a change invalidates.

The proof that a node equals its original holds for its properties, its inputs and its inside at that time. A change of one
of these makes the proof ``"edited"``; undo restores it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pnne_nb.graph.model import ops
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.model.ops import Op
from pnne_nb.graph.schema.structural import PROMOTED, TRAINABLE

_COMPUTES_THE_SAME = (PROMOTED.name, TRAINABLE.name)
"""Properties that change the picture, or what a training does."""

_Place = tuple[str, str]
"""The id of a graph, and the name of a node in it."""


def disproved(content: Content, done: Sequence[Op], inverses: Sequence[Sequence[Op]]) -> list[ops.SetOrigin]:
    """Return the ops that mark the imported nodes whose proof no longer holds.

    Args:
        content: The document after the change.
        done: The ops of the change.
        inverses: The ops that revert each of them.
    """
    changed: dict[_Place, None] = {}
    new: dict[_Place, None] = {}
    made: set[str] = set()
    pending: list[str] = []  # graphs whose computation has changed
    for op, inverse in zip(done, inverses, strict=True):
        match op:
            case ops.AddGraph(graph):
                made.add(graph)
            case ops.AddNode(name=name, graph=graph):
                new[graph, name] = None
                pending.append(graph)
            case ops.RemoveNode(_, graph):
                pending.append(graph)
                changed.update(dict.fromkeys(_fed(inverse)))
            case ops.RenameNode(name, new_name, graph):
                for places in (changed, new):
                    if (graph, name) in places:
                        del places[graph, name]
                        places[graph, new_name] = None
            case ops.SetProperty(property=name) | ops.ResetProperty(property=name) if name in _COMPUTES_THE_SAME:
                pass
            case ops.SetProperty(node=name, graph=graph) | ops.ResetProperty(node=name, graph=graph):
                if op not in inverse and not _shows_the_same(content, op, inverse):
                    changed[graph, name] = None
                changed.update(dict.fromkeys(_fed(inverse)))
            case ops.Connect(_, target, graph) | ops.Disconnect(_, target, graph):
                changed[graph, split_port(target)[0]] = None
            case _:
                pass
    # An added node has its own proof: it is pasted, or moved into a group.
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
    found = ((id, holder.nodes.get(name)) for id, name in marked if (holder := content.graphs.get(id)) is not None)
    return [
        ops.SetOrigin(node.name, msgspec.structs.replace(node.origin, proof="edited"), id)
        for id, node in found
        if node is not None
        and node.type not in ("Input", "Output")
        and node.origin is not None
        and node.origin.proof == "equal"
    ]


def _fed(inverse: Sequence[Op]) -> list[_Place]:
    """Return the nodes that lost an edge."""
    return [(op.graph, split_port(op.target)[0]) for op in inverse if isinstance(op, ops.Connect)]


def _shows_the_same(content: Content, op: ops.SetProperty | ops.ResetProperty, inverse: Sequence[Op]) -> bool:
    """Return whether a block now shows a copy of the definition that it showed before."""
    if not isinstance(op, ops.SetProperty) or op.property != "definition":
        return False
    before = next((other.value for other in inverse if isinstance(other, ops.SetProperty)), None)
    if not isinstance(before, str) or before not in content.graphs:
        return False
    old, new = content.graphs[before], content.graphs[str(op.value)]
    return list(map(_what, old.nodes.values())) == list(map(_what, new.nodes.values())) and (
        set(old.edges.values()) == set(new.edges.values())
    )


def _what(node: Node) -> tuple[object, ...]:
    return node.name, node.type, dict(node.properties), node.origin
