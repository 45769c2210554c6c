"""Closes the gap that nodes leave which become one card, and opens one for those that take its place."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pnne_nb.graph.model.annotation import Box, Frame
from pnne_nb.graph.model.content import GraphIndex
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.model.ops import ChangeFrame, MoveNode

Position = tuple[float, float]
Moves = list[MoveNode | ChangeFrame]

_BESIDE = 200.0
"""Pixels between the centres of cards that stand beside each other."""

_CLEAR = 60.0
"""The same of cards that follow each other, at least."""


def closed_gap(
    graph: GraphIndex, nodes: Collection[Node], frames: Iterable[Frame], *, across: bool
) -> tuple[Position | None, Moves]:
    """Return where the card stands that takes the place of nodes, and the moves of what follows them.

    It stands where the first of them did. What follows moves up to it, or to the last node that stands beside the nodes.
    Frames move with what follows, and those around the gap shrink; where one has an edge in the gap, nothing moves.

    Args:
        graph: Where they stand.
        nodes: The nodes that go.
        frames: The frames that stay.
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
    last = max((place[along] for place in others.values() if start < place[along] <= end), default=start)
    edges = [edge for frame in frames for edge in _edges(frame, along)]
    if any(last < edge <= end for edge in edges):
        return _point(start, aside, across), []
    return _point(start, aside, across), _moves(graph, others, frames, along, end, last - end)


def opened_gap(graph: GraphIndex, block: Node, size: float, *, across: bool) -> Moves:
    """Return the moves of what stands beyond a card, if nodes that take its place would stand on some of it.

    Args:
        graph: Where it stands.
        block: Its node.
        size: How far the last of the nodes will stand from the first, along the edges.
        across: Whether edges run right.
    """
    if block.position is None or size <= 0:
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
    return _moves(graph, others, graph.frames.values(), along, start, size) if in_the_way else []


def extent(nodes: Iterable[Node], *, across: bool) -> tuple[Position, float] | None:
    """Return where the first of some nodes stands, in the middle of all of them, and how far the last is from it."""
    places = [node.position for node in nodes if node.position is not None]
    if not places:
        return None
    along = 0 if across else 1
    start = min(place[along] for place in places)
    aside = sum(place[1 - along] for place in places) / len(places)
    return _point(start, aside, across), max(place[along] for place in places) - start


def _moves(
    graph: GraphIndex, places: dict[str, Position], frames: Iterable[Frame], along: int, beyond: float, by: float
) -> Moves:
    moves: Moves = []
    if by == 0:
        return moves
    for name, place in places.items():
        if place[along] > beyond:
            to = (place[0] + by, place[1]) if along == 0 else (place[0], place[1] + by)
            moves.append(MoveNode(name, to, graph.id))
    for frame in frames:
        near, far = _edges(frame, along)
        if far > beyond:
            moves.append(
                ChangeFrame(
                    frame.name, _box(frame, along, near + by if near > beyond else near, far + by), graph=graph.id
                )
            )
    return moves


def _edges(frame: Frame, along: int) -> tuple[float, float]:
    return frame.box[along], frame.box[along] + frame.box[2 + along]


def _box(frame: Frame, along: int, near: float, far: float) -> Box:
    left, top, width, height = frame.box
    return (near, top, far - near, height) if along == 0 else (left, near, width, far - near)


def _point(along: float, aside: float, across: bool) -> Position:
    return (along, aside) if across else (aside, along)
