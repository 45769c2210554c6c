"""Plans the ops that move nodes into a nested graph, and those that move them back."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import asdict, replace

from pnne_nb.errors import CycleError, GraphError
from pnne_nb.graph.edits.gaps import Gaps, Position, areas, card_size
from pnne_nb.graph.layout.arrange_graph import drawn_right
from pnne_nb.graph.model.annotation import Frame, held
from pnne_nb.graph.model.content import Content, GraphIndex, detour, output_ports
from pnne_nb.graph.model.node import Edge, Node, adding, split_port
from pnne_nb.graph.model.ops import (
    AddFrame,
    AddGraph,
    AddNode,
    Connect,
    Op,
    RemoveFrame,
    RemoveGraph,
    RemoveNode,
    SetProperty,
)
from pnne_nb.graph.model.paths import NodeRef, find_node
from pnne_nb.graph.model.validate import Types
from pnne_nb.graph.schema.names import check_name, free_name, numbered
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.structural import INSIDE

_BESIDE = 220.0
"""Pixels between the nodes of a new nested graph and its Input and Output nodes, where edges run right."""

_ABOVE = 140.0
"""The same if edges run down."""


class GroupPlan(msgspec.Struct, frozen=True):
    """Ops to apply as one change.

    Attributes:
        name: The Subgraph node's name.
        paths: Paths of the resulting nodes.
    """

    ops: tuple[Op, ...]
    name: str
    paths: tuple[str, ...]


def plan_group(
    content: Content, refs: Sequence[NodeRef], name: str | None, within: str = "", types: Types = registry
) -> GroupPlan:
    """Plan a group of nodes named from the graph `within`; see ``NodeGraph.group``.

    Raises:
        GraphError: If these nodes cannot be grouped under that name.
    """
    found = [find_node(content, ref, within) for ref in refs]
    if not found:
        raise GraphError("Give at least one node to group.")
    graph, _, prefix = found[0]
    if any(other is not graph for other, _, _ in found):
        raise GraphError("Only nodes of the same graph can be grouped.")
    inside = {node.name for _, node, _ in found}
    nodes = [graph.nodes[each] for each in graph.order if each in inside]
    _refuse_border_crossers(graph, nodes, inside)
    block = check_name(name) if name is not None else numbered("subgraph", graph.nodes)
    definition = free_name(block, content.graphs)
    border = _Border(content, graph, nodes, inside, types)
    ops: list[Op] = [AddGraph(definition)]
    ops += border.interior(definition, nodes)
    framed = _frames_of(graph, inside)
    for frame in framed:
        ops += [AddFrame(**asdict(frame), graph=definition), RemoveFrame(frame.name, graph.id)]
    ops += [RemoveNode(node.name, graph.id) for node in nodes]
    index = graph.index_of(nodes[0].name)
    others = [frame for frame in graph.frames.values() if frame not in framed]
    across = drawn_right(graph)
    room = Gaps(graph, areas(content, graph, across=across, types=types), others, across=across)
    position, moves = room.closed(
        [node.name for node in nodes], card_size(border.inputs.values(), border.outputs.values(), across=across)
    )
    ops.append(AddNode(block, "Subgraph", {"definition": definition}, position, graph.id, index))
    ops += moves
    ops += [Connect(source, f"{block}.{port}", graph.id) for source, port in border.inputs.items()]
    ops += [Connect(f"{block}.{border.outputs[edge.source]}", edge.target, graph.id) for edge in border.leaving]
    for node in nodes:
        for around, other, path in content.references(graph.id, node.member):
            if around is not graph or other.name not in inside:
                of = f"{path.removesuffix(node.member)}{block}.{node.member}{other.of.removeprefix(path)}"
                ops.append(SetProperty(other.name, "of", of, around.id))
    return GroupPlan(tuple(ops), block, (prefix + block,))


def plan_ungroup(content: Content, ref: NodeRef, within: str = "", types: Types = registry) -> GroupPlan:
    """Plan the inverse; see ``NodeGraph.ungroup``.

    Raises:
        GraphError: If the node is no Subgraph node, or its weights are shared.
    """
    graph, block, prefix = find_node(content, ref, within)
    if block.definition is None:
        raise GraphError(
            f"{block.name}{graph.where} is a {block.type}, not a nested graph: there is nothing to ungroup."
        )
    if block.is_box:
        raise GraphError(
            f"{block.name}{graph.where} runs code of its own on what is inside it, which no edges could say: it cannot "
            "be ungrouped. Edit what is inside."
        )
    if block.shares is not None or block.name in graph.sharers:
        other = block.shares or next(iter(graph.sharers[block.name]))
        raise GraphError(
            f"{block.name}{graph.where} shares its weights with {other!r}, and ungrouped nodes could not. Reset shares first."
        )
    inner = content.graphs[block.definition]
    nodes = [inner.nodes[name] for name in inner.order if inner.nodes[name].type not in ("Input", "Output")]
    names = _free_names(graph, block.name, nodes)
    index = graph.index_of(block.name)
    across = drawn_right(graph if graph.edges else inner)
    inside = areas(content, inner, across=across, types=types)
    room = Gaps(graph, areas(content, graph, across=across, types=types), graph.frames.values(), across=across)
    shift, moves = room.opened(block.name, [inside[node.name] for node in nodes if node.name in inside])
    ops: list[Op] = [*moves, RemoveNode(block.name, graph.id)]
    around = block.properties.get(INSIDE.name)  # the nodes still run inside these contexts
    for place, node in enumerate(nodes):
        added = adding(node, graph.id, index + place)
        if node.shares in names:
            added.properties["shares"] = names[node.shares]
        if node.of:
            added.properties["of"] = _outer_path(inner, node.of, names)
        if isinstance(around, tuple) and (spec := types.get(node.type)) is not None and INSIDE in spec.properties:
            own = node.properties.get(INSIDE.name)
            added.properties[INSIDE.name] = (*around, *own) if isinstance(own, tuple) else around
        position = None if node.position is None else (node.position[0] + shift[0], node.position[1] + shift[1])
        ops.append(replace(added, name=names[node.name], position=position))
    taken = set(graph.frames)
    for name in sorted(inner.frames):
        left, top, width, height = inner.frames[name].box
        frame = replace(
            inner.frames[name], name=_claim(name, taken), box=(left + shift[0], top + shift[1], width, height)
        )
        ops.append(AddFrame(**asdict(frame), graph=graph.id))
    ops += [Connect(edge.source, edge.target, graph.id) for edge in _rejoined(graph, block.name, inner, names)]
    for around_it, standing, path in content.references(graph.id, block.member):
        rest = _outer_path(inner, standing.of.removeprefix(f"{path}."), names)
        ops.append(SetProperty(standing.name, "of", f"{path.removesuffix(block.member)}{rest}", around_it.id))
    if len(content.users_of(inner.id)) == 1:
        # `discarding` reads the document before these ops: this block is its one user.
        ops += discarding(content, inner.id, users=1, emptied=True)
    return GroupPlan(tuple(ops), block.name, tuple(prefix + names[node.name] for node in nodes))


def _outer_path(inner: GraphIndex, path: str, names: Mapping[str, str]) -> str:
    """Return the path that a tensor inside an ungrouped block has outside."""
    node = inner.holder(path)
    return path if node is None else f"{node.held or names[node.name]}{path.removeprefix(node.member)}"


def discarding(content: Content, definition: str, users: int = 0, *, emptied: bool = False) -> list[Op]:
    """Return the ops that remove a definition with at most `users` users, and the definitions that only it showed.

    Args:
        content: The document.
        definition: The definition to remove; it stays if more nodes show it.
        users: The number of uses that do not count.
        emptied: Whether its nodes have moved elsewhere, and still show their definitions.
    """
    if len(content.users_of(definition)) > users:
        return []
    ops: list[Op] = []
    gone: dict[str, int] = {definition: users}
    pending = [definition]
    while pending:
        graph = content.graphs[pending.pop()]
        ops += [RemoveNode(name, graph.id) for name in reversed(graph.order)]
        ops += [RemoveFrame(name, graph.id) for name in graph.frames]
        ops.append(RemoveGraph(graph.id))
        for shown, count in ({} if emptied else graph.shown).items():
            gone[shown] = gone.get(shown, 0) + count
            if gone[shown] == len(content.users_of(shown)):
                pending.append(shown)
    return ops


class _Border:
    """The edges between a group and the rest, and the ports for them."""

    def __init__(
        self, content: Content, graph: GraphIndex, nodes: Iterable[Node], inside: set[str], types: Types
    ) -> None:
        self.internal: list[Edge] = []
        self.entering: list[Edge] = []
        self.leaving: list[Edge] = []
        self.inputs: dict[str, str] = {}  # outer source -> name of the Input node
        self.outputs: dict[str, str] = {}  # inner source -> name of the Output node
        taken = set(inside)
        for node in nodes:
            for key in sorted(graph.incoming[node.name].values()):
                edge = graph.edges[key]
                if split_port(edge.source)[0] in inside:
                    self.internal.append(edge)
                    continue
                self.entering.append(edge)
                if edge.source not in self.inputs:
                    self.inputs[edge.source] = _claim("input", taken)
        for node in nodes:
            for edge in graph.edges_out_of(node.name):
                if split_port(edge.target)[0] not in inside:
                    self.leaving.append(edge)
                    if edge.source not in self.outputs:
                        self.outputs[edge.source] = _claim("output", taken)
        for node in nodes:
            # An unused output is a result: without an Output node, it could not be connected from outside.
            ports = output_ports(content, node, types)
            if ports and not any(graph.edges_out_of(node.name)):
                self.outputs[f"{node.name}.{ports[0].name}"] = _claim("output", taken)
        self._across = drawn_right(graph)

    def interior(self, definition: str, nodes: list[Node]) -> list[Op]:
        """Return the ops that fill the new definition."""
        takers: dict[str, str] = {}
        for edge in self.entering:
            takers.setdefault(self.inputs[edge.source], split_port(edge.target)[0])
        ops: list[Op] = []
        for name, position in self._row(takers, nodes, -1):
            ops.append(AddNode(name, "Input", {}, position, definition))
        ops += [adding(node, definition) for node in nodes]
        givers = {name: split_port(source)[0] for source, name in self.outputs.items()}
        for name, position in self._row(givers, nodes, 1):
            ops.append(AddNode(name, "Output", {}, position, definition))
        ops += [Connect(f"{self.inputs[edge.source]}.output", edge.target, definition) for edge in self.entering]
        ops += [Connect(edge.source, edge.target, definition) for edge in self.internal]
        ops += [Connect(source, f"{name}.input", definition) for source, name in self.outputs.items()]
        return ops

    def _row(
        self, neighbours: Mapping[str, str], nodes: list[Node], side: int
    ) -> Iterator[tuple[str, Position | None]]:
        """Yield names with their places in a row across the edges: before the nodes (side -1), or after them (1).

        They are in the order of their neighbours, so that their edges do not cross.
        """
        placed = {node.name: node.position for node in nodes if node.position is not None}
        along = 0 if self._across else 1
        if not placed:
            yield from ((name, None) for name in neighbours)
            return
        end = max(side * position[along] for position in placed.values()) * side + side * (
            _BESIDE if self._across else _ABOVE
        )
        middle = sum(position[1 - along] for position in placed.values()) / len(placed)
        asides = {name: placed[node][1 - along] if node in placed else middle for name, node in neighbours.items()}
        places = {name: place for place, name in enumerate(sorted(asides, key=asides.__getitem__))}
        for name in neighbours:
            aside = middle + (80.0 if self._across else _BESIDE) * (places[name] - (len(places) - 1) / 2)
            yield name, (end, aside) if self._across else (aside, end)


def _frames_of(graph: GraphIndex, nodes: set[str]) -> list[Frame]:
    """Return the frames that contain some of the nodes and no others."""
    centres = graph.places()
    found = [(graph.frames[name], held(graph.frames[name], centres, ()).nodes) for name in sorted(graph.frames)]
    return [frame for frame, inside in found if inside and nodes.issuperset(inside)]


def _refuse_border_crossers(graph: GraphIndex, nodes: Iterable[Node], inside: set[str]) -> None:
    for node in nodes:
        if node.type in ("Input", "Output"):
            raise GraphError(f"{node.name} is an {node.type} of its graph and cannot be moved into a group.")
        holder = graph.holder(node.of) if node.of else None
        if node.of and (holder is None or holder.name not in inside):
            raise GraphError(f"{node.name} stands for {node.of}: group both or neither.")
        pairs = [(node.name, node.shares)] if node.shares in graph.nodes else []
        pairs += [(sharer, node.name) for sharer in graph.sharers.get(node.name, ())]
        for sharer, owner in pairs:
            if (sharer in inside) != (owner in inside):
                raise GraphError(f"{sharer} shares the module of {owner}: group both or neither.")
    on_the_way = detour(inside, lambda name: [split_port(edge.target)[0] for edge in graph.edges_out_of(name)])
    if on_the_way is not None:
        raise CycleError(f"A path leaves the group and comes back through {on_the_way!r}: group that too.")


def _rejoined(graph: GraphIndex, block: str, inner: GraphIndex, names: dict[str, str]) -> list[Edge]:
    """Return the edges of an ungrouped block, in the outer graph."""
    outer_source = {split_port(edge.target)[1]: edge.source for edge in graph.edges_into(block)}
    outer_targets: dict[str, list[str]] = {}
    for edge in graph.edges_out_of(block):
        outer_targets.setdefault(split_port(edge.source)[1], []).append(edge.target)
    edges: list[Edge] = []
    for source, target in inner.edges.values():
        (giver, output), (taker, port) = split_port(source), split_port(target)
        start = outer_source.get(giver) if inner.nodes[giver].type == "Input" else f"{names[giver]}.{output}"
        ends = outer_targets.get(taker, []) if inner.nodes[taker].type == "Output" else [f"{names[taker]}.{port}"]
        if start is not None:
            edges += [Edge(start, end) for end in ends]
    return edges


def _free_names(graph: GraphIndex, block: str, nodes: Iterable[Node]) -> dict[str, str]:
    taken = set(graph.nodes) - {block}
    names: dict[str, str] = {}
    for node in nodes:
        names[node.name] = _claim(node.name if node.name not in taken else f"{block}_{node.name}"[:90], taken)
    return names


def name_inside(name: str, block: str, inside: Container[str]) -> str | None:
    """Return what a node was called inside a block that was ungrouped; None if it was not inside. See `_free_names`."""
    return next((former for former in (name, name.removeprefix(f"{block}_")) if former in inside), None)


def _claim(name: str, taken: set[str]) -> str:
    claimed = free_name(name, taken)
    taken.add(claimed)
    return claimed
