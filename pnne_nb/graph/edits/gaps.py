"""Closes the gap of nodes that become one card, and opens one for the nodes that replace a card."""

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
"""The least distance between the centres of cards that follow each other."""


def closed_gap(
    graph: GraphIndex, nodes: Collection[Node], frames: Iterable[Frame], *, across: bool
) -> tuple[Position | None, Moves]:
    """Return the place of the card that replaces nodes, and the moves of what follows them.

    The card stands at the place of the first node. What follows moves up to it, or to the last node that stands beside the
    nodes. Frames move with what follows, and those around the gap shrink. If a frame has an edge in the gap, nothing moves.

    Args:
        graph: Their graph.
        nodes: The nodes that go.
        frames: The frames that stay.
        across: Whether edges run right.
    """
    along = 0 if across else 1
    extent = _extent(nodes, along)
    if extent is None:
        return None, []
    start, end, aside = extent
    others = _places_without(graph, nodes)
    last = max((place[along] for place in others.values() if start < place[along] <= end), default=start)
    is_cut = any(last < edge <= end for frame in frames for edge in _edges(frame, along))
    moves = [] if is_cut else _moves(graph, others, frames, along, end, last - end)
    return _point(start, aside, along), moves


def opened_gap(graph: GraphIndex, block: Node, nodes: Collection[Node], *, across: bool) -> tuple[Position, Moves]:
    """Return the shift of nodes that replace a card, and the moves of what they would cover.

    Args:
        graph: The graph of the card.
        block: The node of the card.
        nodes: The nodes, at their places inside the block.
        across: Whether edges run right.
    """
    along = 0 if across else 1
    extent = _extent(nodes, along)
    if block.position is None or extent is None:
        return (0.0, 0.0), []
    first = _point(extent[0], extent[2], along)
    shift = block.position[0] - first[0], block.position[1] - first[1]
    size = extent[1] - extent[0]
    others = _places_without(graph, [block])
    start, aside = block.position[along], block.position[1 - along]
    in_the_way = size > 0 and any(
        start < place[along] <= start + size + _CLEAR and abs(place[1 - along] - aside) < _BESIDE
        for place in others.values()
    )
    return shift, _moves(graph, others, graph.frames.values(), along, start, size) if in_the_way else []


def _extent(nodes: Iterable[Node], along: int) -> tuple[float, float, float] | None:
    """Return the first and the last place of nodes along the edges, and their mean across; None without any place."""
    places = [node.position for node in nodes if node.position is not None]
    if not places:
        return None
    line = [place[along] for place in places]
    return min(line), max(line), sum(place[1 - along] for place in places) / len(places)


def _places_without(graph: GraphIndex, nodes: Iterable[Node]) -> dict[str, Position]:
    gone = {node.name for node in nodes}
    return {name: place for name, place in graph.places().items() if name not in gone}


def _moves(
    graph: GraphIndex, places: dict[str, Position], frames: Iterable[Frame], along: int, beyond: float, by: float
) -> Moves:
    if by == 0:
        return []
    moves: Moves = [
        MoveNode(name, _point(place[along] + by, place[1 - along], along), graph.id)
        for name, place in places.items()
        if place[along] > beyond
    ]
    for frame in frames:
        near, far = _edges(frame, along)
        if far > beyond:
            box = _box(frame, along, near + by if near > beyond else near, far + by)
            moves.append(ChangeFrame(frame.name, box, graph=graph.id))
    return moves


def _edges(frame: Frame, along: int) -> tuple[float, float]:
    return frame.box[along], frame.box[along] + frame.box[2 + along]


def _box(frame: Frame, along: int, near: float, far: float) -> Box:
    left, top, width, height = frame.box
    return (near, top, far - near, height) if along == 0 else (left, near, width, far - near)


def _point(along: float, aside: float, axis: int) -> Position:
    return (along, aside) if axis == 0 else (aside, along)
