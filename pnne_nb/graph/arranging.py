"""The automatic arrangement of one graph of a document, as ops.

A frame keeps what stands in it: its nodes are arranged among themselves, and the frame as a whole among the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from pnne_nb.graph.frame import Box, Frame, around, held
from pnne_nb.graph.geometry import Geometry, Point, geometry, runs_right, shown_inputs, shows_summary
from pnne_nb.graph.layout import RANK_GAP, Direction, Link, Size, arrange
from pnne_nb.graph.node import Node, split_port
from pnne_nb.graph.ops import ChangeFrame, MoveNode
from pnne_nb.graph.ports import input_ports, output_ports
from pnne_nb.graph.records import DocumentState
from pnne_nb.graph.spec import NodeSpec
from pnne_nb.graph.state import Content, GraphIndex

GAP_RIGHT = 96.0
"""Pixels between nodes from left to right: the shape stands along the edge, not beside it."""


def arrangement(
    content: Content, graph: str, types: Mapping[str, NodeSpec], direction: Direction = "down"
) -> tuple[MoveNode | ChangeFrame, ...]:
    """Return the ops that arrange a graph; none for a node that already stands where it should.

    Raises:
        GraphError: If there is no such graph.
    """
    index = content.require(graph)
    across = direction == "right"
    shapes = {}
    for name in index.order:
        node = index.nodes[name]
        summary = shows_summary(node, types.get(node.type))
        shapes[name] = shown_geometry(content, index, node, types, summary=summary, across=across)
    links = []
    for edge in index.edges.values():
        (source, out), (target, into) = split_port(edge.source), split_port(edge.target)
        leaves = shapes[source].outputs[out] - _middle(shapes[source])
        arrives = shapes[target].inputs[into] - _middle(shapes[target])
        links.append(Link(source, target, leaves, arrives))
    sizes = {name: Size(shape.width, shape.height) for name, shape in shapes.items()}
    centres = {name: node.position for name, node in index.nodes.items() if node.position is not None}
    places, boxes = _arranged(sizes, links, centres, index.frames, direction)
    moves = [
        MoveNode(name=name, position=position, graph=graph)
        for name, position in places.items()
        if index.nodes[name].position != position
    ]
    frames = [ChangeFrame(name, box=box, graph=graph) for name, box in boxes.items() if index.frames[name].box != box]
    return (*moves, *frames)


def drawn_right(index: GraphIndex, places: Mapping[str, Point]) -> bool:
    """Whether a graph whose nodes stand at `places` is drawn from left to right; nodes without a place do not count."""
    ends = ((split_port(edge.source)[0], split_port(edge.target)[0]) for edge in index.edges.values())
    return runs_right((places[one], places[other]) for one, other in ends if one in places and other in places)


def _middle(shape: Geometry) -> float:
    """Half of the side that ports stand on."""
    return (shape.height if shape.across else shape.width) / 2


def arranged(state: DocumentState, content: Content, types: Mapping[str, NodeSpec]) -> DocumentState:
    """Return a document's plain data with the places that arranging would give to graphs that have none at all."""
    graphs = {}
    for id, graph in state.graphs.items():
        if any(node.position is not None for node in graph.nodes):
            graphs[id] = graph
            continue
        ops = arrangement(content, id, types)
        places = {op.name: op.position for op in ops if isinstance(op, MoveNode)}
        boxes = {op.name: op.box for op in ops if isinstance(op, ChangeFrame)}
        nodes = (replace(node, position=places[node.name]) for node in graph.nodes)
        frames = (replace(frame, box=boxes.get(frame.name) or frame.box) for frame in graph.frames)
        graphs[id] = replace(graph, nodes=tuple(nodes), frames=tuple(frames))
    return replace(state, graphs=graphs)


class _Whole(NamedTuple):
    """A frame with what stands in it, which is arranged as one thing.

    Attributes:
        places: Centres of the nodes in it, from its own centre.
        boxes: The boxes of the frames in it, itself included, likewise.
    """

    size: Size
    places: Mapping[str, Point]
    boxes: Mapping[str, Box]


def _arranged(
    sizes: Mapping[str, Size],
    links: list[Link],
    centres: Mapping[str, Point],
    frames: Mapping[str, Frame],
    direction: Direction,
) -> tuple[dict[str, Point], dict[str, Box]]:
    """Return the centres of nodes and the boxes of frames."""
    wholes: dict[str, _Whole] = {name: _Whole(size, {name: (0.0, 0.0)}, {}) for name, size in sizes.items()}
    inside = dict(centres)
    loose: list[tuple[Frame, tuple[str, ...]]] = []
    # Inner frames first: a frame that stands in another one is one of its things.
    for frame in sorted(frames.values(), key=lambda frame: (frame.box[2] * frame.box[3], frame.name)):
        members = held(frame, inside, ()).nodes
        if not members:
            continue
        rest = _outside(links, members)
        if rest is None:
            loose.append((frame, tuple(node for member in members for node in wholes[member].places)))
            continue
        whole, links = _framed(frame, {member: wholes.pop(member) for member in members}, links, rest, direction)
        for member in members:
            del inside[member]
        # No node can be called so.
        key = f"frame {frame.name}"
        wholes[key] = whole
        left, top, width, height = frame.box
        inside[key] = (left + width / 2, top + height / 2)
    placed = _laid_out(wholes, links, direction)
    places, boxes = _unpacked(wholes, placed)
    for frame, nodes in loose:
        boxes[frame.name] = around(_box(places[node], sizes[node]) for node in nodes)
    return {name: places[name] for name in sizes}, boxes


def _laid_out(things: Mapping[str, _Whole], links: list[Link], direction: Direction) -> dict[str, Point]:
    sizes = {name: whole.size for name, whole in things.items()}
    return arrange(sizes, links, direction, GAP_RIGHT if direction == "right" else RANK_GAP)


def _outside(links: list[Link], members: tuple[str, ...]) -> set[str] | None:
    """The things that links join to members; None if a path leaves the members and comes back."""
    inside = set(members)
    pending = [link.target for link in links if link.source in inside and link.target not in inside]
    followers: dict[str, list[str]] = {}
    for link in links:
        followers.setdefault(link.source, []).append(link.target)
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if name in inside:
            return None
        if name not in seen:
            seen.add(name)
            pending += followers.get(name, ())
    return inside


def _framed(
    frame: Frame, members: Mapping[str, _Whole], links: list[Link], inside: set[str], direction: Direction
) -> tuple[_Whole, list[Link]]:
    """Return a frame as one thing, and the links with their ends at it."""
    own = [link for link in links if link.source in inside and link.target in inside]
    placed = _laid_out(members, own, direction)
    places, boxes = _unpacked(members, placed)
    left, top, width, height = around(_box(placed[name], whole.size) for name, whole in members.items())
    middle = (float(round(left + width / 2)), float(round(top + height / 2)))
    key = f"frame {frame.name}"

    def end(name: str, offset: float) -> tuple[str, float]:
        shift = placed[name][0] - middle[0] if direction == "down" else placed[name][1] - middle[1]
        return key, offset + shift

    outer: list[Link] = []
    for link in links:
        source, leaves = end(link.source, link.leaves) if link.source in inside else (link.source, link.leaves)
        target, arrives = end(link.target, link.arrives) if link.target in inside else (link.target, link.arrives)
        if source != target:
            outer.append(Link(source, target, leaves, arrives))
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


def shown_geometry(
    content: Content,
    index: GraphIndex,
    node: Node,
    types: Mapping[str, NodeSpec],
    *,
    summary: bool,
    across: bool,
) -> Geometry:
    """Return the geometry of a node as it is shown: with the ports that it has, and those that edges use."""
    outputs = [port.name for port in output_ports(content, node, types) or ()]
    # Outputs in use that the type does not declare: an unregistered type's, or those of other settings.
    used = (split_port(edge.source)[1] for edge in index.edges_out_of(node.name))
    outputs = list(dict.fromkeys((*outputs, *used)))
    inputs = shown_inputs(input_ports(content, node, types) or (), index.incoming[node.name])
    return geometry(inputs, outputs, summary=summary, collapsed=node.collapsed, across=across)
