"""Describes the cards of a graph, for arrangement and picture: text, size and ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from pnne_nb.graph.layout.geometry import Geometry, dot, geometry, shown_inputs
from pnne_nb.graph.layout.inlining import Inlining, is_given, variable_of
from pnne_nb.graph.layout.texts import BETWEEN, block_words, is_wide, kind, lines, parts, promoted, row_title
from pnne_nb.graph.model.content import Content, GraphIndex, input_ports, output_ports
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.model.paths import Row
from pnne_nb.graph.schema.spec import NodeSpec
from pnne_nb.graph.schema.structural import REROUTE
from pnne_nb.process.idle import breathe

Resolved: TypeAlias = Mapping[str, Mapping[str, object]]
"""Inferred values of properties that are ``"auto"``, by node and name."""

NONE_RESOLVED: Resolved = MappingProxyType({})


_MOST_VALUES: Final = 3
"""Most lines of a pattern: more would not fit into the room that arranging left for its first node."""


class CardFace(NamedTuple):
    """The texts of a card, and its geometry.

    Attributes:
        title: Its name.
        kind: The line below: the type, or the number of steps of an expression; empty if the name contains it.
        told: The text in one line.
        lines: The text in the lines of the card.
        geometry: The size and the ports of the card.
        chain: Its nodes, its own first, if they are the steps of one expression or a folded pattern.
    """

    title: str
    kind: str
    told: str
    lines: tuple[str, ...]
    geometry: Geometry
    chain: Row = ()


def faces(
    content: Content,
    index: GraphIndex,
    types: Mapping[str, NodeSpec],
    inlined: Inlining,
    *,
    across: bool,
    resolved: Resolved = NONE_RESOLVED,
    patterns: Sequence[Row] = (),
) -> dict[str, CardFace]:
    """Return the face of each card of a graph, in the order of the nodes.

    Args:
        content: The document, which does not change meanwhile.
        index: The graph.
        types: The catalogue.
        inlined: The nodes without their own card.
        across: Whether edges run right.
        resolved: Values of properties that are ``"auto"``.
        patterns: The nodes that are drawn on one card each because their row repeats them.
    """
    chains = {chain[0]: chain for chain in (*inlined.chains, *patterns)}
    absorbed = {*inlined.hidden, *inlined.heads}
    written: dict[str, dict[str, str]] = {}
    for address, text in inlined.texts.items():
        name, port = split_port(address)
        written.setdefault(name, {})[port] = text

    def told(name: str) -> list[str]:
        node = index.nodes[name]
        return parts(node, types.get(node.type), resolved.get(name, {}), written.get(name, {}))

    made = {}
    for name in index.order:
        breathe()
        if name in absorbed:
            continue
        node = index.nodes[name]
        if chain := chains.get(name, ()):
            kinds = [kind(index.nodes[step], content.graphs) for step in chain]
            steps = [" ".join((its, BETWEEN.join(told(step)))).rstrip() for its, step in zip(kinds, chain, strict=True)]
            # The title of a pattern names its nodes: those with values stand below.
            listed = [step for step in steps if " " in step][:_MOST_VALUES] if chain in patterns else steps
            text, rows = BETWEEN.join(steps), [[step] for step in listed]
            title, words = (f"({BETWEEN.join(kinds)})", "") if chain in patterns else _steps(index, chain, kinds)
        else:
            pieces = told(name)
            text = BETWEEN.join(pieces)
            rows = [_shown_of(content, node, types) if node.type == "Subgraph" else pieces]
            title, words = name, _kind(content, node)
        marks = (node.type == "Subgraph") + (node.origin is not None)
        wide = is_wide(title, words, [piece for row in rows for piece in row], marks)
        shown = [line for row in rows for line in lines(row, wide=wide)]
        last = index.nodes[chain[-1]] if chain else node
        inputs = shown_inputs(
            [port for port in input_ports(content, node, types) or () if port.name not in written.get(name, {})],
            [port for port in index.incoming[name] if port not in written.get(name, {})],
        )
        outputs = _outputs(content, index, last, types, inlined)
        if node.type == REROUTE:
            shape = dot(across=across)
        else:
            shape = geometry(inputs, outputs, lines=len(shown), wide=wide, collapsed=node.collapsed, across=across)
        made[name] = CardFace(title, words, text, tuple(shown), shape, chain)
    return made


def _steps(index: GraphIndex, chain: Row, kinds: Sequence[str]) -> tuple[str, str]:
    """Return the two lines at the top of a card of an expression."""
    given = next((name for name in reversed(chain) if is_given(name, index.nodes[name].type)), None)
    called = given or next(filter(None, (variable_of(index.nodes[name]) for name in reversed(chain))), None)
    return called or row_title(kinds[0], kinds[-1]), f"{len(chain)} steps"


def _kind(content: Content, node: Node) -> str:
    """Return the second line at the top of a card: what the node is, unless the name contains it."""
    if node.type == "Subgraph":
        return block_words(node, content.graphs)
    return node.type if is_given(node.name, node.type) or node.type[:1].isupper() else ""


def _shown_of(content: Content, block: Node, types: Mapping[str, NodeSpec]) -> list[str]:
    """Return the properties of inner nodes that a block shows."""
    inside = content.graphs.get(block.definition or "")
    nodes = () if inside is None else (inside.nodes[name] for name in inside.order)
    return [text for node in nodes for text in promoted(node, types.get(node.type))]


def _outputs(
    content: Content, index: GraphIndex, node: Node, types: Mapping[str, NodeSpec], inlined: Inlining
) -> list[str]:
    # Used outputs that the type does not declare: those of an unregistered type, or of other settings.
    declared = [port.name for port in output_ports(content, node, types) or ()]
    edges = index.edges_out_of(node.name)
    takers = (split_port(edge.target)[0] for edge in edges)
    picks = {name for name in takers if inlined.picks.get(name) == f"{node.name}.{name}"}
    used = [split_port(edge.source)[1] for edge in edges if split_port(edge.target)[0] not in picks]
    if not picks:
        # What imported code does not use is not drawn, as the states of an LSTM.
        offered = [name for name in declared if name in used] if node.origin is not None and used else declared
        return list(dict.fromkeys((*offered, *used)))
    parts_of_it = sorted(picks, key=lambda name: int(str(index.nodes[name].properties["index"])))
    return list(dict.fromkeys((*parts_of_it, *used)))


Place: TypeAlias = tuple[float, float]


class _Band(NamedTuple):
    """A removed part of the canvas, across its whole width (`axis` 1) or height (0)."""

    axis: int
    start: float
    end: float


def closed(places: Mapping[str, Place], runs: Sequence[Row]) -> dict[str, Place]:
    """Return the places of nodes if each run is one card, at the place of its first node.

    The gap of the other nodes is closed if no other node is beside them.
    """
    hidden = {name for run in runs for name in run[1:]}
    shown = {name: place for name, place in places.items() if name not in hidden}
    bands = [
        band
        for band in _merged(_band(places[run[0]], places[run[-1]]) for run in runs)
        if not any(band.start < place[band.axis] <= band.end for place in shown.values())
    ]
    return {name: _shown_at(place, bands) for name, place in shown.items()}


def _band(first: Place, last: Place) -> _Band:
    axis = 1 if abs(last[1] - first[1]) >= abs(last[0] - first[0]) else 0
    return _Band(axis, first[axis], last[axis])


def _merged(bands: Iterable[_Band]) -> list[_Band]:
    made: list[_Band] = []
    for band in sorted(bands):
        if band.end <= band.start:
            continue
        if made and made[-1].axis == band.axis and band.start < made[-1].end:
            made[-1] = made[-1]._replace(end=max(made[-1].end, band.end))
        else:
            made.append(band)
    return made


def _shown_at(place: Place, bands: Sequence[_Band]) -> Place:
    shown = list(place)
    for band in bands:
        shown[band.axis] -= min(max(place[band.axis] - band.start, 0.0), band.end - band.start)
    return shown[0], shown[1]
