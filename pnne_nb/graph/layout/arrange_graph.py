"""Arranges one graph of a document automatically, and returns the ops for it.

A frame keeps its contents: its nodes are arranged among themselves, and the frame as a whole among the other nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pnne_nb.graph.layout.cards import closed, faces
from pnne_nb.graph.layout.columns import CELL, Cell, columns, fitting_scale
from pnne_nb.graph.layout.geometry import HEADER_HEIGHT, SUMMARY_HEIGHT, WIDTH, Geometry, Point, runs_right
from pnne_nb.graph.layout.inlining import Inlining, inlining
from pnne_nb.graph.layout.layered import RANK_GAP, Direction, LayeredEdge, Size, arrange
from pnne_nb.graph.model.annotation import Box, Frame, around, held
from pnne_nb.graph.model.content import Content, GraphIndex, detour, topological_order
from pnne_nb.graph.model.node import split_port
from pnne_nb.graph.model.ops import ChangeFrame, MoveNode
from pnne_nb.graph.model.paths import Row
from pnne_nb.graph.schema.spec import NodeSpec

_ROW = HEADER_HEIGHT + SUMMARY_HEIGHT + 44.0
"""Pixels from one node beside the drawing to the next one below."""
GAP_RIGHT = 96.0
"""Pixels between nodes from left to right: the shape is written along the edge, not beside it."""


READABLE = 0.82
"""The scale at which the smallest text of a card has nine pixels."""
_WORTH = 1.15
"""A drawing is turned or broken into columns if it becomes larger by this factor."""
_MANY = 400
"""Number of cards above which a drawing from left to right is never the largest."""


class View(NamedTuple):
    """The view of a graph.

    Attributes:
        cell: Width and height in pixels.
        folded: Rows of nodes that are shown as one card each.
    """

    cell: Cell
    folded: Sequence[Row] = ()


CELL_OF_A_NOTEBOOK = View(CELL)


class _Drawing(NamedTuple):
    """The cards of a graph, arranged in one direction, and the edges between them."""

    places: Mapping[str, Point]
    boxes: Mapping[str, Box]
    sizes: Mapping[str, Size]
    links: Sequence[LayeredEdge]

    def in_columns(self, cell: Cell) -> _Drawing:
        """Return a drawing that runs down in columns that fill a cell, unless it has frames."""
        if self.boxes or not self.places:
            return self
        return self._replace(places=columns(self.places, self.sizes, self.links, cell))


def arrangement(
    content: Content,
    graph: str,
    types: Mapping[str, NodeSpec],
    direction: Direction = "down",
    *,
    nodes: Collection[str] = (),
    values: bool = False,
    view: View = CELL_OF_A_NOTEBOOK,
) -> tuple[MoveNode | ChangeFrame, ...]:
    """Return the ops that arrange a graph; none for a node that is already in its place.

    Args:
        content: The document, which does not change meanwhile.
        graph: Id of the graph.
        types: The catalogue.
        direction: The direction of edges.
        nodes: The nodes to arrange, around their present places; empty for all, with the frames.
        values: Whether sizes, constants and steps of an expression have their own cards. Otherwise they are written on other
            cards, and placed beside the drawing.
        view: The view that the drawing should fit into, for ``"auto"`` and ``"columns"``.

    Raises:
        GraphError: If there is no such graph.
    """
    index = content.require(graph)
    inlined = Inlining() if values else inlining(index)
    draw = partial(_drawing, content, index, types, inlined)
    if nodes:
        chosen = frozenset(inlined.heads.get(name, name) for name in nodes)
        if direction == "auto":
            direction = "right" if drawn_right(index, chosen) else "down"
        drawing = draw(direction, chosen)
        drawing = drawing.in_columns(view.cell) if direction == "columns" else drawing
        places, boxes = _where_they_stood(drawing.places, index.places(drawing.places)), dict[str, Box]()
    else:
        drawing = _largest(draw, index, view) if direction == "auto" else draw(direction)
        drawing = drawing.in_columns(view.cell) if direction == "columns" else drawing
        places, boxes = dict(drawing.places), dict(drawing.boxes)
        places |= _beside(index, places, drawing.sizes, inlined)
    moves = [
        MoveNode(name=name, position=places[name], graph=graph)
        for name in index.order
        if name in places and index.nodes[name].position != places[name]
    ]
    frames = [ChangeFrame(name, box=box, graph=graph) for name, box in boxes.items() if index.frames[name].box != box]
    return (*moves, *frames)


def _where_they_stood(places: Mapping[str, Point], before: Mapping[str, Point]) -> dict[str, Point]:
    """Shift an arrangement so that its middle stays in its place."""
    if not before:
        return dict(places)

    def middle(points: Mapping[str, Point], axis: int) -> float:
        along = [point[axis] for point in points.values()]
        return (min(along) + max(along)) / 2

    dx, dy = (middle(before, axis) - middle(places, axis) for axis in (0, 1))
    return {name: (float(round(x + dx)), float(round(y + dy))) for name, (x, y) in places.items()}


def _largest(draw: Callable[[Direction], _Drawing], index: GraphIndex, view: View) -> _Drawing:
    """Arrange a graph down if it can be read so, or in the direction that makes it largest."""
    runs = [run for run in view.folded if all(name in index.nodes for name in run)]
    best = draw("down")
    scale = _seen_scale(best, runs, view.cell)
    if scale >= READABLE:
        return best
    largest = scale * _WORTH
    others = [best.in_columns(view.cell)]
    if len(best.places) <= _MANY:
        others.insert(0, draw("right"))
    for tried in others:
        scale = _seen_scale(tried, runs, view.cell)
        if scale > largest:
            best, largest = tried, scale
    return best


def _seen_scale(drawing: _Drawing, runs: Sequence[Row], cell: Cell) -> float:
    """Return the scale at which a drawing fits into a cell, with each run as one card."""
    drawn = [run for run in runs if drawing.places.keys() >= set(run)]
    places = closed(drawing.places, drawn) if drawn and not drawing.boxes else drawing.places
    return fitting_scale(places, drawing.sizes, cell)


def _drawing(
    content: Content,
    index: GraphIndex,
    types: Mapping[str, NodeSpec],
    inlined: Inlining,
    direction: Direction,
    only: Collection[str] = (),
) -> _Drawing:
    """Arrange the cards of a graph, or `only` some of them and no frames, in one direction."""
    shown = faces(content, index, types, inlined, across=direction == "right")
    shapes = {name: face.geometry for name, face in shown.items() if not only or name in only}
    heads = inlined.heads
    links = []
    for edge in index.edges.values():
        (source, out), (target, into) = inlined.giver(edge.source), split_port(edge.target)
        source = heads.get(source, source)
        if target in shapes and source in shapes and edge.target not in inlined.texts:
            leaves = shapes[source].outputs[out] - _middle(shapes[source])
            arrives = shapes[target].inputs[into] - _middle(shapes[target])
            links.append(LayeredEdge(source, target, leaves, arrives))
    sizes = {name: Size(shape.width, shape.height) for name, shape in shapes.items()}
    framed = {} if only else index.frames
    direct: Direction = "right" if direction == "right" else "down"
    places, boxes = _arranged(sizes, links, index.places(sizes), framed, direct)
    return _Drawing(places, boxes, sizes, links)


def _beside(
    index: GraphIndex, places: Mapping[str, Point], sizes: Mapping[str, Size], inlined: Inlining
) -> dict[str, Point]:
    """Place nodes without their own card: left of the drawing, about as high as their consumers."""
    beside: dict[str, Point] = {}
    if not inlined.hidden and not inlined.chains:
        return beside
    left = min((places[name][0] - sizes[name].width / 2 for name in places), default=0.0)
    heads, depths, ends = inlined.heads, dict[str, int](), dict[float, float]()
    for name in reversed(topological_order(index)[0]):
        if name in places:
            continue
        users = [split_port(edge.target)[0] for edge in index.edges_out_of(name)]
        depth = 1 + max((depths.get(user, 0) for user in users), default=0)
        user = heads.get(name, users[0] if users else name)
        wanted = (places.get(user) or beside.get(user) or (0.0, 0.0))[1]
        depths[name] = depth
        column = left - depth * (WIDTH + GAP_RIGHT) + WIDTH / 2
        y = wanted if column not in ends else max(wanted, ends[column])
        ends[column] = y + _ROW
        beside[name] = (float(round(column)), float(round(y)))
    return beside


def drawn_right(index: GraphIndex, nodes: Iterable[str] | None = None) -> bool:
    """Return whether a graph, or some of its nodes, is drawn from left to right; nodes without a place do not count."""
    places = index.places(nodes)
    inlined = inlining(index)
    heads = inlined.heads
    pairs = ((inlined.giver(edge.source)[0], split_port(edge.target)[0]) for edge in index.edges.values())
    ends = [
        (heads.get(one, one), other) for one, other in pairs if not {one, other} & inlined.hidden and other not in heads
    ]
    return runs_right((places[one], places[other]) for one, other in ends if one in places and other in places)


def _middle(shape: Geometry) -> float:
    """Return half of the length of the side with the ports."""
    return (shape.height if shape.across else shape.width) / 2


class _Whole(NamedTuple):
    """A node, or a frame with its contents, which is arranged as one node.

    Attributes:
        places: Centres of its nodes, relative to its own centre.
        boxes: The boxes of its frames, itself included, likewise.
    """

    size: Size
    places: Mapping[str, Point]
    boxes: Mapping[str, Box]


def _arranged(
    sizes: Mapping[str, Size],
    links: list[LayeredEdge],
    centres: Mapping[str, Point],
    frames: Mapping[str, Frame],
    direction: Direction,
) -> tuple[dict[str, Point], dict[str, Box]]:
    """Return the centres of nodes and the boxes of frames."""
    wholes: dict[str, _Whole] = {name: _Whole(size, {name: (0.0, 0.0)}, {}) for name, size in sizes.items()}
    inside = dict(centres)
    loose: list[tuple[Frame, tuple[str, ...]]] = []
    # Inner frames first: a frame inside another one is one of its members.
    for frame in sorted(frames.values(), key=lambda frame: (frame.box[2] * frame.box[3], frame.name)):
        members = held(frame, inside, ()).nodes
        if not members:
            continue
        followers = defaultdict[str, list[str]](list)
        for link in links:
            followers[link.source].append(link.target)
        if detour(members, followers.__getitem__) is not None:
            loose.append((frame, tuple(node for member in members for node in wholes[member].places)))
            continue
        whole, links = _framed(frame, {member: wholes.pop(member) for member in members}, links, direction)
        for member in members:
            del inside[member]
        # No node can have this name.
        key = f"frame {frame.name}"
        wholes[key] = whole
        left, top, width, height = frame.box
        inside[key] = (left + width / 2, top + height / 2)
    placed = _laid_out(wholes, links, direction)
    places, boxes = _unpacked(wholes, placed)
    for frame, nodes in loose:
        boxes[frame.name] = around(_box(places[node], sizes[node]) for node in nodes)
    return {name: places[name] for name in sizes}, boxes


def _laid_out(things: Mapping[str, _Whole], links: list[LayeredEdge], direction: Direction) -> dict[str, Point]:
    sizes = {name: whole.size for name, whole in things.items()}
    return arrange(sizes, links, direction, GAP_RIGHT if direction == "right" else RANK_GAP)


def _framed(
    frame: Frame, members: Mapping[str, _Whole], links: list[LayeredEdge], direction: Direction
) -> tuple[_Whole, list[LayeredEdge]]:
    """Return a frame as one node, and the links with their ends at it."""
    own = [link for link in links if link.source in members and link.target in members]
    placed = _laid_out(members, own, direction)
    places, boxes = _unpacked(members, placed)
    left, top, width, height = around(_box(placed[name], whole.size) for name, whole in members.items())
    middle = (float(round(left + width / 2)), float(round(top + height / 2)))
    across = 0 if direction == "down" else 1

    def end(name: str, offset: float) -> tuple[str, float]:
        if name not in members:
            return name, offset
        return f"frame {frame.name}", offset + (placed[name][across] - middle[across])

    outer: list[LayeredEdge] = []
    for link in links:
        (source, leaves), (target, arrives) = end(link.source, link.leaves), end(link.target, link.arrives)
        if source != target:
            outer.append(LayeredEdge(source, target, leaves, arrives))
    shifted = {name: (x - middle[0], y - middle[1]) for name, (x, y) in places.items()}
    frames = {name: (x - middle[0], y - middle[1], w, h) for name, (x, y, w, h) in boxes.items()}
    frames[frame.name] = (left - middle[0], top - middle[1], width, height)
    return _Whole(Size(width, height), shifted, frames), outer


def _unpacked(wholes: Mapping[str, _Whole], placed: Mapping[str, Point]) -> tuple[dict[str, Point], dict[str, Box]]:
    places: dict[str, Point] = {}
    boxes: dict[str, Box] = {}
    for name, whole in wholes.items():
        x, y = placed[name]
        places |= {node: (x + dx, y + dy) for node, (dx, dy) in whole.places.items()}
        boxes |= {frame: (x + dx, y + dy, w, h) for frame, (dx, dy, w, h) in whole.boxes.items()}
    return places, boxes


def _box(centre: Point, size: Size) -> Box:
    return centre[0] - size.width / 2, centre[1] - size.height / 2, size.width, size.height
