"""Closes the gap of nodes that become one card, and opens one for the nodes that replace a card.

Along the edges, only the column moves that the change is in: the cards that overlap each other across the edges, directly or
through others, and the frames around them. No two cards overlap afterwards that did not before. ``js/src/editor/scene/room.ts``
has the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, final

from pnne_nb.graph.layout.arrange_graph import GAP_RIGHT
from pnne_nb.graph.layout.cards import faces
from pnne_nb.graph.layout.geometry import HEADER_HEIGHT, SUMMARY_HEIGHT, WIDTH, geometry
from pnne_nb.graph.layout.inlining import inlining
from pnne_nb.graph.layout.layered import NODE_GAP, RANK_GAP, Size
from pnne_nb.graph.model.annotation import Frame
from pnne_nb.graph.model.content import Content, GraphIndex
from pnne_nb.graph.model.ops import ChangeFrame, MoveNode
from pnne_nb.graph.model.validate import Types
from pnne_nb.graph.schema.registry import registry

Position = tuple[float, float]
Moves = list[MoveNode | ChangeFrame]
Span: TypeAlias = tuple[float, float]

_TOUCH = 1.0
"""Places are rounded to pixels: cards that touch are clear of each other."""


class Area(NamedTuple):
    """The spans of a card in the direction of edges, and across."""

    along: Span
    across: Span

    def covers(self, other: Area) -> bool:
        """Return whether two cards overlap."""
        return _overlap(self.along, other.along) and _overlap(self.across, other.across)


def areas(content: Content, graph: GraphIndex, *, across: bool, types: Types = registry) -> dict[str, Area]:
    """Return the areas of all nodes of a graph that have a place, those without their own card included.

    Args:
        content: The document.
        graph: The graph.
        across: Whether edges run right.
        types: The types that have a card of their own.
    """
    shown = faces(content, graph, types, inlining(graph), across=across)
    plain = Size(WIDTH, HEADER_HEIGHT + SUMMARY_HEIGHT)
    sizes = {name: Size(face.geometry.width, face.geometry.height) for name, face in shown.items()}
    return {name: area(place, sizes.get(name, plain), across=across) for name, place in graph.places().items()}


def area(centre: Position, size: Size, *, across: bool) -> Area:
    """Return the area of a card."""
    spans = [(middle - length / 2, middle + length / 2) for middle, length in zip(centre, size, strict=True)]
    return Area(*spans) if across else Area(*reversed(spans))


def card_size(inputs: Collection[str], outputs: Collection[str], *, across: bool, lines: int = 0) -> Size:
    """Return the size of a card with these ports, and lines of text below its name."""
    shape = geometry(list(inputs), list(outputs), lines=lines, across=across)
    return Size(shape.width, shape.height)


@final
class Gaps:
    """The cards and frames of one graph, beside nodes that are removed or replaced."""

    def __init__(self, graph: GraphIndex, cards: Mapping[str, Area], frames: Iterable[Frame], *, across: bool) -> None:
        self._graph = graph
        self._cards = cards
        self._frames = {frame.name: _frame_area(frame, across=across) for frame in frames}
        self._across = across

    def closed(self, nodes: Collection[str], size: Size) -> tuple[Position | None, Moves]:
        """Return the place of the card that replaces nodes, and the moves of what follows them.

        The card stands where the first node begins, or after what stands there. In each column, what follows the nodes moves
        up, and keeps its distance. Frames move with what follows, and those around the gap shrink. If a frame has an edge in
        the gap, nothing moves up.

        Args:
            nodes: Their names, the first one of the graph first.
            size: The size of the card.
        """
        gone = [self._cards[name] for name in nodes if name in self._cards]
        if not gone:
            return None, []
        kept = {name: card for name, card in self._cards.items() if name not in nodes}
        length, width = size if self._across else reversed(size)
        own = [card for card in gone if _overlap(card.across, _column(self._spans(), gone[0].across))]
        start = min(card.along[0] for card in own)

        def in_the_way(aside: float, start: float) -> list[Area]:
            across = (aside - width / 2, aside + width / 2)
            column = _column((*self._spans(), across), gone[0].across)
            end = max(card.along[1] for card in gone if _overlap(card.across, column))
            found = [card for card in kept.values() if card.covers(Area((start, start + length), across))]
            # What overlapped before may do so still.
            return [card for card in found if card.along[0] < end and not any(card.covers(each) for each in gone)]

        first = min(own)
        asides = sum(sum(card.across) for card in own) / len(own) / 2, sum(first.across) / 2
        aside = next((aside for aside in asides if not in_the_way(aside, start)), asides[0])
        while blocking := in_the_way(aside, start):
            start = max(card.along[1] for card in blocking) + NODE_GAP
        across = (aside - width / 2, aside + width / 2)
        block = Area((start, start + length), across)
        moves: Moves = []
        remaining = gone
        while remaining:
            column = _column((*self._spans(), across), remaining[0].across)
            here = [card for card in remaining if _overlap(card.across, column)]
            remaining = [card for card in remaining if card not in here]
            moves += self._follow(column, kept, here, block if _overlap(across, column) else None)
        return self._point(start + length / 2, aside), moves

    def opened(self, block: str, inside: Sequence[Area]) -> tuple[Position, Moves]:
        """Return the shift of cards that replace a block, and the moves of what they would cover.

        Args:
            block: The name of the block.
            inside: The areas of the cards, where they are inside the block, the first one of its graph first.
        """
        if block not in self._cards or not inside:
            return (0.0, 0.0), []
        card = self._cards[block]
        kept = {name: other for name, other in self._cards.items() if name != block}
        first = _column([area.across for area in inside], inside[0].across)
        own = [sum(area.across) / 2 for area in inside if _overlap(area.across, first)]
        middle = sum(own) / len(own)
        by = card.along[0] - min(area.along[0] for area in inside), sum(card.across) / 2 - middle
        along = card.along[0], max(area.along[1] for area in inside) + by[0]
        across = min(area.across[0] for area in inside) + by[1], max(area.across[1] for area in inside) + by[1]
        column = _column(self._spans(), card.across)
        growth = max(0.0, along[1] - card.along[1])

        def moved_along(place: float, span: Span) -> float:
            return place + growth if _overlap(span, column) and place >= card.along[1] - _TOUCH else place

        beside = [
            other.across
            for other in kept.values()
            if _overlap((moved_along(other.along[0], other.across), moved_along(other.along[1], other.across)), along)
        ]
        lefts = [span[1] for span in beside if span[1] <= card.across[0] + _TOUCH]
        rights = [span[0] for span in beside if span[0] >= card.across[1] - _TOUCH]
        back = max(0.0, max(lefts, default=across[0] - NODE_GAP) + NODE_GAP - across[0])
        on = max(0.0, across[1] + NODE_GAP - min(rights, default=across[1] + NODE_GAP))

        def moved_across(place: float) -> float:
            if place >= card.across[1] - _TOUCH:
                return place + on
            return place - back if place <= card.across[0] + _TOUCH else place

        def shifted(other: Area) -> Position:
            start = moved_along(other.along[0], other.across) - other.along[0]
            left, right = (moved_across(place) - place for place in other.across)
            # A card that begins before the block and ends beyond it stays.
            return start, left if left > 0 else min(right, 0.0)

        moves: Moves = [*self._moved({name: shifted(other) for name, other in kept.items()})]
        moves += self._framed(moved_along, moved_across)
        return self._point(*by), moves

    def after(self, name: str, size: Size) -> tuple[Position | None, Moves]:
        """Return the place of a new card after another one, and the moves of what would be too near to it."""
        if name not in self._cards:
            return None, []
        card = self._cards[name]
        length, width = size if self._across else reversed(size)
        aside = sum(card.across) / 2
        start = card.along[1] + (GAP_RIGHT if self._across else RANK_GAP)
        new = Area((start, start + length), (aside - width / 2, aside + width / 2))
        column = _column((*self._spans(), new.across), card.across)
        kept = {other: area for other, area in self._cards.items() if _overlap(area.across, column)}
        beyond = {other: area for other, area in kept.items() if area.along[0] >= card.along[1] - _TOUCH}
        ends = [area.along[1] for other, area in kept.items() if other not in beyond and area.covers(new)]
        shift = max((end + NODE_GAP - start for end in ends), default=0.0)
        start += shift
        gap = start - card.along[1]
        by = max(
            0.0, start + length + gap - min((area.along[0] for area in beyond.values()), default=start + length + gap)
        )

        def moved(place: float, span: Span) -> float:
            return place + by if _overlap(span, column) and place > card.along[1] + _TOUCH else place

        moves: Moves = [*self._moved(dict.fromkeys(beyond, (by, 0.0))), *self._framed(moved, float)]
        return self._point(start + length / 2, aside), moves

    def _follow(
        self, column: Span, kept: Mapping[str, Area], gone: Collection[Area], block: Area | None
    ) -> Iterator[MoveNode | ChangeFrame]:
        """Yield the moves of what follows nodes in a column, in which the block may stand instead."""
        end = max(card.along[1] for card in gone)
        here = {name: card for name, card in kept.items() if _overlap(card.across, column)}
        after = {name: card for name, card in here.items() if card.along[0] >= end - _TOUCH}
        ends = [card.along[1] for name, card in here.items() if name not in after]
        if block is not None:
            ends.append(block.along[1])
        gap = min((card.along[0] for card in after.values()), default=end) - end
        begin = max((*(place + max(gap, 0.0) for place in ends), min(card.along[0] for card in gone)))
        by = begin - gap - end
        edges = [edge for frame in self._frames.values() if _overlap(frame.across, column) for edge in frame.along]
        if by < 0 and any(end + by < edge <= end for edge in edges):
            return

        def moved(place: float, span: Span) -> float:
            return place + by if _overlap(span, column) and place > end - _TOUCH else place

        yield from self._moved(dict.fromkeys(after, (by, 0.0)))
        yield from self._framed(moved, float)

    def _moved(self, shifts: Mapping[str, Position]) -> Iterator[MoveNode]:
        for name, by in shifts.items():
            place = self._graph.nodes[name].position
            if place is not None and any(by):
                x, y = self._point(*by)
                yield MoveNode(name, (float(round(place[0] + x)), float(round(place[1] + y))), self._graph.id)

    def _framed(self, along: Callable[[float, Span], float], across: Callable[[float], float]) -> Iterator[ChangeFrame]:
        """Yield the changes of frames, of which each edge moves as a card there would."""
        for name, frame in self._frames.items():
            start, end = (along(edge, frame.across) for edge in frame.along)
            near, far = (across(edge) for edge in frame.across)
            (left, top), (width, height) = self._point(start, near), self._point(end - start, far - near)
            if (box := (left, top, width, height)) != self._graph.frames[name].box and width > 0 and height > 0:
                yield ChangeFrame(name, box=box, graph=self._graph.id)

    def _spans(self) -> tuple[Span, ...]:
        return tuple(area.across for area in (*self._cards.values(), *self._frames.values()))

    def _point(self, along: float, across: float) -> Position:
        return (along, across) if self._across else (across, along)


def _frame_area(frame: Frame, *, across: bool) -> Area:
    left, top, width, height = frame.box
    spans = (left, left + width), (top, top + height)
    return Area(*spans) if across else Area(*reversed(spans))


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] - _TOUCH and other[0] < one[1] - _TOUCH


def _column(spans: Iterable[Span], seed: Span) -> Span:
    """Return the span of what overlaps `seed`, directly or through others."""
    start, end = seed
    spans = sorted(spans)
    for left, right in spans:
        if _overlap((start, end), (left, right)):
            end = max(end, right)
    for left, right in sorted(spans, key=lambda span: -span[1]):
        if _overlap((start, end), (left, right)):
            start = min(start, left)
    return start, end
