"""Closes the gap that nodes leave which become one card, and opens one for those that take its place."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pnne_nb.graph.model.content import GraphIndex
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.model.ops import MoveNode

Position = tuple[float, float]

_BESIDE = 200.0
"""Pixels between the centres of cards that stand beside each other."""

_CLEAR = 60.0
"""The same of cards that follow each other, at least."""


def closed_gap(graph: GraphIndex, nodes: Collection[Node], *, across: bool) -> tuple[Position | None, list[MoveNode]]:
    """Return where the card stands that takes the place of nodes, and the moves of what follows them.

    It stands where the first of them did. What follows moves up to it, or to the last node that stands beside the nodes;
    where frames hold the place, nothing moves.

    Args:
        graph: Where they stand.
        nodes: The nodes that go.
        across: Whether edges run right.
    """
    places = [node.position for node in nodes if node.position is not None]
    if not places:
        return None, []
    along = 0 if across else 1
    start, end = min(place[along] for place in places), max(place[along] for place in places)
    aside = sum(place[1 - along] for place in places) / len(places)
    gone = {node.name for node in nodes}
    others = {
        name: node.position for name, node in graph.nodes.items() if node.position is not None and name not in gone
    }
    if graph.frames:
        return _point(start, aside, across), []
    last = max((place[along] for place in others.values() if start < place[along] <= end), default=start)
    return _point(start, aside, across), _moves(graph, others, along, end, last - end)


def opened_gap(graph: GraphIndex, block: Node, size: float, *, across: bool) -> list[MoveNode]:
    """Return the moves of what stands beyond a card, if nodes that take its place would stand on some of it.

    Args:
        graph: Where it stands.
        block: Its node.
        size: How far the last of the nodes will stand from the first, along the edges.
        across: Whether edges run right.
    """
    if block.position is None or graph.frames or size <= 0:
        return []
    along = 0 if across else 1
    others = {
        name: node.position for name, node in graph.nodes.items() if node.position is not None and node is not block
    }
    start, aside = block.position[along], block.position[1 - along]
    in_the_way = any(
        start < place[along] <= start + size + _CLEAR and abs(place[1 - along] - aside) < _BESIDE
        for place in others.values()
    )
    return _moves(graph, others, along, start, size) if in_the_way else []


def extent(nodes: Iterable[Node], *, across: bool) -> tuple[Position, float] | None:
    """Return where the first of some nodes stands, in the middle of all of them, and how far the last is from it."""
    places = [node.position for node in nodes if node.position is not None]
    if not places:
        return None
    along = 0 if across else 1
    start = min(place[along] for place in places)
    aside = sum(place[1 - along] for place in places) / len(places)
    return _point(start, aside, across), max(place[along] for place in places) - start


def _moves(graph: GraphIndex, places: dict[str, Position], along: int, beyond: float, by: float) -> list[MoveNode]:
    moved = []
    for name, place in places.items():
        if place[along] > beyond and by:
            to = (place[0] + by, place[1]) if along == 0 else (place[0], place[1] + by)
            moved.append(MoveNode(name, to, graph.id))
    return moved


def _point(along: float, aside: float, across: bool) -> Position:
    return (along, aside) if across else (aside, along)
