"""Lets the tied tensors of imported nodes follow nodes that are renamed, grouped or ungrouped.

A node's origin names the tensor that one of its own is by the path below the model, which such a change moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from pnne_nb.graph.edits.group_plans import name_inside
from pnne_nb.graph.model import ops
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.model.ops import Op

_Moves = list[tuple[str, str]]
"""Paths of nodes below the model before a change, and after it; no path is both."""


def retied(content: Content, done: Sequence[Op], inverses: Sequence[Sequence[Op]]) -> list[ops.SetOrigin]:
    """Return the ops after which ties name the same tensors as before.

    Args:
        content: The document after the change.
        done: The ops of the change.
        inverses: The ops that revert each of them.
    """
    if not any(isinstance(op, ops.RenameNode | ops.RemoveNode) for op in done):
        return []
    removed = [op for inverse in inverses for op in inverse if isinstance(op, ops.AddNode)]
    tied = [
        (id, node)
        for id, graph in content.graphs.items()
        for node in graph.nodes.values()
        if node.origin is not None and node.origin.ties
    ]
    if not tied and not any(node.origin is not None and node.origin.ties for node in removed):
        return []
    changes = list(_changes(content, done, removed))
    found: dict[tuple[str, str], dict[str, str]] = {}
    for id, node in tied:
        now = _path(content, id, node.member)
        before = _moved(now, [[(new, old) for old, new in moves] for moves in reversed(changes)])
        own = found[id, node.name] = {}
        for below, other in node.origin.ties.items() if node.origin is not None else ():
            own[_moved(f"{before}.{below}", changes).removeprefix(f"{now}.")] = _moved(other, changes)
    for block in removed:
        graph = content.graphs.get(block.graph)
        if graph is None or block.name in graph.nodes or block.origin is None:
            continue
        held = block.origin.held or block.name
        for below, other in block.origin.ties.items():
            now = _moved(_path(content, block.graph, f"{held}.{below}"), changes)
            for node in graph.nodes.values():
                path = _path(content, block.graph, node.member)
                if now.startswith(f"{path}.") and node.origin is not None:
                    own = found.setdefault((block.graph, node.name), dict(node.origin.ties))
                    own[now.removeprefix(f"{path}.")] = _moved(other, changes)
    return [
        ops.SetOrigin(name, msgspec.structs.replace(origin, ties=ties), id)
        for (id, name), ties in found.items()
        if (origin := content.graphs[id].nodes[name].origin) is not None and origin.ties != ties
    ]


def _changes(content: Content, done: Sequence[Op], removed: Sequence[ops.AddNode]) -> Iterator[_Moves]:
    added = [op for op in done if isinstance(op, ops.AddNode)]
    for op in done:
        match op:
            case ops.RenameNode(name, new, graph):
                node = _node(content, graph, new)
                if node is not None and not node.held:
                    yield [(_path(content, graph, name), _path(content, graph, new))]
            case ops.AddNode(name=block, graph=graph, properties={"definition": str(inner)}):
                inside = [
                    node.member for one in added if one.graph == inner and (node := _node(content, inner, one.name))
                ]
                before = {member for one in removed if one.graph == graph for member in (one.name, _held(one))}
                yield [
                    (_path(content, graph, member), _path(content, graph, f"{block}.{member}"))
                    for member in inside
                    if member in before
                ]
            case ops.RemoveNode(block, graph) if not any(one.name == block and one.graph != graph for one in added):
                yield list(_ungrouped(content, block, graph, added, removed))
            case _:
                pass


def _ungrouped(
    content: Content, block: str, graph: str, added: Sequence[ops.AddNode], removed: Sequence[ops.AddNode]
) -> Iterator[tuple[str, str]]:
    whole = next((one for one in removed if (one.graph, one.name) == (graph, block)), None)
    inner = None if whole is None else whole.properties.get("definition")
    if whole is None or not isinstance(inner, str):
        return
    names = {one.name for one in removed if one.graph == inner}
    names.update(content.graphs[inner].nodes if inner in content.graphs else ())
    for one in added:
        former = name_inside(one.name, block, names)
        if one.graph == graph and former is not None:
            old = f"{_held(whole) or block}.{_held(one) or former}"
            yield _path(content, graph, old), _path(content, graph, _held(one) or one.name)


def _node(content: Content, graph: str, name: str) -> Node | None:
    return content.graphs[graph].nodes.get(name) if graph in content.graphs else None


def _held(node: ops.AddNode) -> str:
    return (node.origin.held or "") if node.origin is not None else ""


def _path(content: Content, id: str, member: str) -> str:
    """Return the path below the model of what a graph calls `member`: in the first node that shows the graph."""
    while id:
        around, block = next(iter(content.users_of(id)), (None, ""))
        if around is None:
            return member
        id, member = around.id, f"{around.nodes[block].member}.{member}"
    return member


def _moved(path: str, changes: Sequence[_Moves]) -> str:
    for moves in changes:
        old, new = max(((o, n) for o, n in moves if f"{path}.".startswith(f"{o}.")), default=("", ""))
        path = f"{new}{path.removeprefix(old)}" if old else path
    return path
