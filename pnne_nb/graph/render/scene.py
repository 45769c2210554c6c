"""Lists the parts of one graph's picture: cards at their places, and wires between their ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

from pnne_nb.graph.layout.arrange_graph import arrangement, drawn_right
from pnne_nb.graph.layout.cards import CardFace, Resolved, closed, faces
from pnne_nb.graph.layout.geometry import Geometry
from pnne_nb.graph.layout.inlining import Inlining, inlining
from pnne_nb.graph.layout.texts import BETWEEN, row_title, shape_label
from pnne_nb.graph.model.annotation import Frame
from pnne_nb.graph.model.content import Content, GraphIndex, input_ports, topological_order
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.model.ops import MoveNode
from pnne_nb.graph.model.paths import Run, enter, frozen_around, in_names, runs
from pnne_nb.graph.render.edge_routing import Box, Point, parted, routed
from pnne_nb.graph.schema.categories import BLOCK, UNKNOWN
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.graph.schema.structural import TRAINABLE
from pnne_nb.process.idle import breathe

GAP = 44.0
BESIDE = 32.0
FULL_DETAIL = 400
"""Above this number of nodes, cards are only coloured boxes with a name, so that files stay small."""


class Shape(Protocol):
    """The shape and the dtype name of a port's value."""

    @property
    def shape(self) -> tuple[int | str, ...]: ...

    @property
    def dtype(self) -> str: ...


Shapes: TypeAlias = Mapping[str, Shape]
"""Shapes of output ports, by path."""

NO_SHAPES: Shapes = MappingProxyType({})


class Card(NamedTuple):
    """One node; `x` and `y` are its upper left corner, `uses` is the number of nodes that show its definition.

    `run` is what repeats in a row that is folded into it, its own node first. `kind` is the second line: the type, or the
    steps of an expression or of a pattern; empty if the name contains it.
    """

    name: str
    type: str
    category: str
    known: bool
    kind: str
    summary: str
    lines: tuple[str, ...]
    geometry: Geometry
    optional: frozenset[str]
    x: float
    y: float
    uses: int
    title: str
    collapsed: bool = False
    run: Run = ()
    frozen: bool = False

    @property
    def times(self) -> str:
        """How often its run repeats, or else the number of nodes with its definition: ``"×8"``."""
        count = len(self.run) or self.uses
        return f"×{count}" if count > 1 else ""

    @property
    def box(self) -> Box:
        """The rectangle that it covers."""
        return self.x, self.y, self.x + self.geometry.width, self.y + self.geometry.height


class SceneEdge(NamedTuple):
    """One edge; `points` are its start, the places that it passes vertically, and its end.

    If it runs right (`across`), it passes them horizontally. `label` is the part of a result and the shape of its value, and
    `labelled` whether it is shown: only on the shortest edge of a port.
    """

    source: str
    target: str
    points: tuple[Point, ...]
    label: str
    labelled: bool
    across: bool


class Scene(NamedTuple):
    """One graph of a document."""

    title: str
    cards: tuple[Card, ...]
    wires: tuple[SceneEdge, ...]
    frames: tuple[Frame, ...] = ()

    @property
    def detailed(self) -> bool:
        """Whether the nodes are few enough to be drawn in full."""
        return len(self.cards) <= FULL_DETAIL


def scene(
    content: Content,
    within: str,
    types: Mapping[str, NodeSpec],
    shapes: Shapes,
    resolved: Resolved,
    *,
    fold: bool = False,
) -> Scene:
    """Return the scene of one graph.

    Args:
        content: The document, which does not change meanwhile.
        within: Path of the Subgraph node that shows it; empty for the root.
        types: The catalogue.
        shapes: Known shapes of output ports, by full path.
        resolved: Values of properties that are ``"auto"``, by full path.
        fold: Whether what repeats in a row is one card.

    Raises:
        UnknownNodeError: If there is no node at `within`.
    """
    within = in_names(content, within)
    index = enter(content, within)
    prefix = f"{within}." if within else ""
    known = {name: resolved.get(f"{prefix}{name}", {}) for name in index.nodes}
    across = drawn_right(index)
    inlined = inlining(index)
    shown = faces(content, index, types, inlined, across=across, resolved=known)
    centres = _centres(content, index, types, shown)
    chained = {name for chain in inlined.chains for name in chain}
    folded = [
        run
        for run in (runs(content, index, lambda name: known[name]) if fold else [])
        if not chained.intersection(*run) and shown.keys() >= {name for row in run for name in row}
    ]
    rows = [tuple(name for row in run for name in row) for run in folded]
    # Frames keep their places, so gaps stay open.
    placed = closed(centres, rows) if not index.frames else centres
    heads = {**inlined.heads, **{name: row[0] for row in rows for name in row}}
    whole = {run[0][0]: run for run in folded}
    if patterns := tuple(run[0] for run in folded if len(run[0]) > 1):
        shown = faces(content, index, types, inlined, across=across, resolved=known, patterns=patterns)
    is_cold = frozen_around(content, within) != ""
    cards = {
        name: _card(content, index, name, types, face, placed[name], whole.get(name, ()))._replace(
            frozen=not index.nodes[name].trainable or (is_cold and _has_weights(index.nodes[name], types))
        )
        for name, face in shown.items()
        if heads.get(name, name) == name
    }
    wires = _wires(index, cards, heads, inlined, lambda port: shapes.get(f"{prefix}{port}"))
    where = f"{content.name}, {within}" if within else content.name
    # The largest first: smaller ones are drawn on it.
    frames = sorted(index.frames.values(), key=lambda frame: (-frame.box[2] * frame.box[3], frame.name))
    return Scene(where, tuple(cards.values()), wires, tuple(frames))


def _wires(
    index: GraphIndex,
    cards: Mapping[str, Card],
    heads: Mapping[str, str],
    inlined: Inlining,
    shape_of: Callable[[str], Shape | None],
) -> tuple[SceneEdge, ...]:
    drawn, routes = [], []
    around = cards if len(cards) <= FULL_DETAIL else {}
    across = any(card.geometry.across for card in cards.values())
    # Sorted, as in a file: the picture does not depend on the order of creation.
    for edge in sorted(index.edges.values()):
        breathe()
        (source, out), (target, into) = inlined.giver(edge.source), split_port(edge.target)
        if target not in cards or edge.target in inlined.texts:
            continue  # inside a folded run, or written on the card
        above, below = cards[heads.get(source, source)], cards[target]
        (x1, y1), (x2, y2) = above.geometry.output_at(out), below.geometry.input_at(into)
        start, end = (above.x + x1, above.y + y1), (below.x + x2, below.y + y2)
        others = [card.box for name, card in around.items() if name not in {above.name, target}]
        drawn.append(edge)
        points = routed(start, end, others, own=(above.box, below.box) if around else (), across=across)
        routes.append((edge.source, points))
    wires: list[SceneEdge] = []
    shortest: dict[str, int] = {}
    for edge, points in zip(drawn, parted(routes, [card.box for card in around.values()], across=across), strict=True):
        given = shape_of(edge.source)
        size = shape_label(given.shape, given.dtype) if given is not None else ""
        label = BETWEEN.join(filter(None, (inlined.texts.get(edge.source, ""), size)))
        best = shortest.setdefault(edge.source, len(wires))
        if best != len(wires) and _length(points) < _length(wires[best].points):
            shortest[edge.source] = len(wires)
        wires.append(SceneEdge(edge.source, edge.target, points, label, labelled=False, across=across))
    for place in shortest.values():
        wires[place] = wires[place]._replace(labelled=True)
    return tuple(wires)


def _length(points: Sequence[Point]) -> float:
    return abs(points[0][0] - points[-1][0]) + abs(points[0][1] - points[-1][1])


def _card(
    content: Content,
    index: GraphIndex,
    name: str,
    types: Mapping[str, NodeSpec],
    face: CardFace,
    centre: tuple[float, float],
    run: Run,
) -> Card:
    node, shape = index.nodes[name], face.geometry
    spec = types.get(node.type)
    category = BLOCK.name if node.type == "Subgraph" else spec.category if spec is not None else UNKNOWN.name
    optional = frozenset(
        port.name for port in input_ports(content, node, types) or () if port.optional and port.name in shape.inputs
    )
    uses = 0 if node.definition is None else sum(1 for _ in content.users.get(node.definition, ()))
    names = row_title(run[0][0], run[-1][0]) if run else ""
    title, words = (face.title, names) if run and face.chain else (names or face.title, face.kind)
    return Card(
        name=node.name,
        type=node.type,
        category=category,
        known=spec is not None,
        kind=words,
        summary=", ".join(filter(None, (words, face.told)))
        if node.type == "Subgraph" and not face.chain
        else face.told,
        lines=face.lines,
        geometry=shape,
        optional=optional,
        x=centre[0] - shape.width / 2,
        y=centre[1] - shape.height / 2,
        uses=uses,
        collapsed=node.collapsed,
        title=title,
        run=run,
    )


def _has_weights(node: Node, types: Mapping[str, NodeSpec]) -> bool:
    spec = types.get(node.type)
    return node.type == "Parameter" or (spec is not None and spec.property_named(TRAINABLE.name) is not None)


def _centres(
    content: Content, index: GraphIndex, types: Mapping[str, NodeSpec], shown: Mapping[str, CardFace]
) -> dict[str, tuple[float, float]]:
    """Return the centres of cards; those without a place are put below their sources. Without any places, arrange all."""
    sizes = {name: face.geometry for name, face in shown.items()}
    placed = index.places(shown)
    if not placed:
        # A node that is already at the origin is not moved.
        ops = arrangement(content, index.id, types)
        arranged = {op.name: op.position for op in ops if isinstance(op, MoveNode)}
        return {name: arranged.get(name) or (0.0, 0.0) for name in shown}
    for name in topological_order(index)[0]:
        if name in shown and name not in placed:
            givers = (split_port(edge.source)[0] for edge in index.edges_into(name))
            feeding = [placed[giver] for giver in givers if giver in placed]
            x = feeding[0][0] if feeding else 0.0
            y = max((above[1] for above in feeding), default=0.0) + (sizes[name].height + GAP if feeding else 0.0)
            while any(_overlap(sizes[name], (x, y), sizes[other], place) for other, place in placed.items()):
                x += sizes[name].width + BESIDE
            placed[name] = (x, y)
    return placed


def _overlap(one: Geometry, here: tuple[float, float], other: Geometry, there: tuple[float, float]) -> bool:
    return (
        abs(here[0] - there[0]) < (one.width + other.width) / 2 + BESIDE / 2
        and abs(here[1] - there[1]) < (one.height + other.height) / 2 + BESIDE / 2
    )
