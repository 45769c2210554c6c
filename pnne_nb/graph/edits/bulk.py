"""Plans the ops that change many nodes at once: another type in their place, a node after each, or their removal from a chain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, TypeAlias

from pnne_nb.errors import GraphError, UnknownNodeError, near, shown
from pnne_nb.graph.edits.add_node import meant_type
from pnne_nb.graph.edits.gaps import Gaps, areas, card_size
from pnne_nb.graph.layout.arrange_graph import drawn_right
from pnne_nb.graph.model.content import Content, GraphIndex, find_input, input_ports, output_ports
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.model.ops import AddNode, Connect, Disconnect, Op, RemoveNode, ResetProperty, SetProperty
from pnne_nb.graph.model.paths import NodeRef, find_node, named_paths, paths_in
from pnne_nb.graph.model.validate import Types
from pnne_nb.graph.schema.registry import require_type
from pnne_nb.graph.schema.spec import NodeSpec, Port, kinds_fit

Chosen: TypeAlias = "NodeRef | Iterable[NodeRef]"
"""A node, its path, a pattern of paths such as ``"layer*.relu"``, or several of these."""


class Place(NamedTuple):
    """A node, the graph that it is in, and the path of that graph with a dot after it."""

    graph: GraphIndex
    node: Node
    prefix: str

    @property
    def path(self) -> str:
        """The path of the node."""
        return f"{self.prefix}{self.node.name}"


def matching(content: Content, pattern: str, type: str | None = None, *, inside: bool = True) -> list[str]:
    """Return the paths of the nodes that fit a pattern, in the order of the document.

    Args:
        content: The document.
        pattern: A path in which ``*`` stands for any letters and dots, ``?`` for one letter; what a list of the
            original holds has both names, ``layers_0`` and ``layers.0``.
        type: The type of the nodes; None for any.
        inside: Whether nodes inside blocks count.
    """
    return [
        path
        for path, original in named_paths(content)
        if (fnmatchcase(path, pattern) or fnmatchcase(original, pattern))
        and (inside or "." not in path)
        and (type is None or find_node(content, path)[1].type == type)
    ]


def places(content: Content, *chosen: Chosen) -> list[Place]:
    """Return the nodes that are meant, each once: a node of a shared block has several paths.

    Raises:
        UnknownNodeError: If there is no such node, or nothing fits a pattern.
    """
    refs: list[object] = []
    for each in chosen:
        refs += [*each] if isinstance(each, Iterable) and not isinstance(each, (str, Node)) else [each]
    found: dict[tuple[str, str], Place] = {}
    for ref in refs:
        paths: Sequence[object] = [ref]
        if isinstance(ref, str) and any(sign in ref for sign in "*?["):
            paths = matching(content, ref)
            if not paths:
                raise UnknownNodeError(
                    f"No node fits {shown(ref)}.{near(ref, paths_in(content))} graph.find() lists the paths of all nodes."
                )
        for path in paths:
            place = Place(*find_node(content, path))  # type: ignore[arg-type]  # what is no node is refused there
            found.setdefault((place.graph.id, place.node.name), place)
    return list(found.values())


def retype_all(
    content: Callable[[], Content], found: Sequence[Place], type: object, types: Types
) -> Iterator[Sequence[Op]]:
    """Yield what gives nodes another type, as `retype` does one, each part to be applied before the next.

    Nodes that share a module go on sharing one if all of them are meant.
    """
    chosen = {(graph.id, node.name) for graph, node, _ in found}
    ties = [
        SetProperty(node.name, "shares", node.shares, graph.id)
        for graph, node, _ in found
        if node.shares is not None
        and chosen.issuperset((graph.id, name) for name in (node.shares, *graph.sharers[node.shares]))
    ]
    yield [ResetProperty(tie.node, tie.property, tie.graph) for tie in ties]
    for place in places(content(), [place.path for place in found]):
        yield retype(content(), place, type, types)
    if meant_type(types, type)[0].property_named("shares") is not None:
        yield ties


def retype(content: Content, place: Place, type: object, types: Types) -> list[Op]:
    """Return the ops that give a node another type under its name and at its place.

    Values of properties that the new type has too are kept, and all edges: each goes to the port of the same name, or to
    the one at the same place among the ports of its side.

    Raises:
        UnknownTypeError: If the catalogue has no such type.
        GraphError: If the node cannot have it, or an edge would have no port.
    """
    graph, node, _ = place
    spec, read = meant_type(types, type)
    if node.type == spec.type and not read:
        return []
    _refuse_fixed(graph, node, spec)
    kept = {name: value for name, value in node.properties.items() if spec.property_named(name) is not None}
    properties: dict[str, object] = {**kept, **read}
    new = AddNode(
        node.name, spec.type, properties, node.position, graph.id, graph.index_of(node.name), collapsed=node.collapsed
    )
    incoming, outgoing = graph.edges_into(node.name), graph.edges_out_of(node.name)
    before = input_ports(content, node, types) or (), output_ports(content, node, types) or ()
    ops: list[Op] = [RemoveNode(node.name, graph.id), new]
    lost = []
    for edge in (*incoming, *outgoing):
        out = edge in outgoing
        old = split_port(edge.source if out else edge.target)[1]
        port = _counterpart(before[out], spec.present_outputs(node.properties) if out else spec.inputs, old, spec)
        if port is None:
            lost.append(f"{edge.source} → {edge.target}")
            continue
        end = f"{node.name}.{port}"
        ops.append(Connect(*((end, edge.target) if out else (edge.source, end)), graph.id))
    if lost:
        raise GraphError(
            f"{node.name}{graph.where} keeps its type {node.type}: {spec.type} has no port for {', '.join(lost)}. "
            "Disconnect it first."
        )
    return ops


def bypass(content: Content, place: Place, types: Types) -> list[Op]:
    """Return the ops that connect what feeds a node with what it feeds; the node is still there.

    Raises:
        GraphError: If several outputs come in, or what comes in does not fit where the node's output went.
    """
    graph, node, _ = place
    sources = list(dict.fromkeys(edge.source for edge in graph.edges_into(node.name)))
    targets = [edge.target for edge in graph.edges_out_of(node.name)]
    if not targets:
        return []
    if len(sources) != 1:
        feeding = f"{len(sources)} outputs feed it ({', '.join(sources)})" if sources else "nothing feeds it"
        raise GraphError(
            f"The gap of {node.name}{graph.where} cannot be closed: {feeding}. Use graph.remove({node.name!r}), then connect "
            "what belongs together."
        )
    giver, output = split_port(sources[0])
    port = next((each for each in output_ports(content, graph.nodes[giver], types) or () if each.name == output), None)
    ops: list[Op] = []
    for target in targets:
        taker, name = split_port(target)
        into = find_input(content, graph.nodes[taker], name, types)
        if port is not None and into is not None and not kinds_fit(port.kind, into.kind):
            raise GraphError(
                f"The gap of {node.name}{graph.where} cannot be closed: {sources[0]} does not fit {target}."
            )
        ops += [Disconnect(f"{node.name}.{_output_of(graph, node, target)}", target, graph.id)]
        ops += [Connect(sources[0], target, graph.id)]
    return ops


def insert_after(content: Content, place: Place, new: AddNode, types: Types) -> list[Op]:
    """Return the ops that put a new node behind the first output of a node: what that fed is fed by the new one.

    Raises:
        GraphError: If the node has no output, or the new one has no port that fits.
    """
    graph, node, _ = place
    spec = require_type(types, new.type)
    output = next(iter(output_ports(content, node, types) or ()), None)
    into = next((port for port in spec.inputs if output is not None and kinds_fit(output.kind, port.kind)), None)
    out = next(iter(spec.present_outputs({})), None)
    if output is None or into is None or out is None:
        why = f"{node.name} has no output" if output is None else f"{new.type} has no port that fits"
        raise GraphError(f"No {new.type} can follow {node.name}{graph.where}: {why}.")
    source = f"{node.name}.{output.name}"
    across = drawn_right(graph)
    cards = areas(content, graph, across=across, types=types)
    size = card_size([into.name], [out.name], across=across, lines=1)
    position, moves = Gaps(graph, cards, graph.frames.values(), across=across).after(node.name, size)
    slot = f"{into.name}_0" if into.variadic else into.name
    ops: list[Op] = [
        *moves,
        AddNode(new.name, new.type, new.properties, position, graph.id, graph.index_of(node.name) + 1),
    ]
    fed = [edge for edge in graph.edges_out_of(node.name) if edge.source == source]
    ops += [Disconnect(edge.source, edge.target, graph.id) for edge in fed]
    ops += [Connect(source, f"{new.name}.{slot}", graph.id)]
    ops += [Connect(f"{new.name}.{out.name}", edge.target, graph.id) for edge in fed]
    return ops


def _output_of(graph: GraphIndex, node: Node, target: str) -> str:
    return next(split_port(edge.source)[1] for edge in graph.edges_out_of(node.name) if edge.target == target)


def _counterpart(before: Sequence[Port], after: Sequence[Port], name: str, spec: NodeSpec) -> str | None:
    """Return the port that takes the place of another one; None if there is none."""
    if spec.property_named(name) is not None:
        return name
    stem, _, slot = name.rpartition("_")
    if any(port.name == name or (port.variadic and port.name == stem) for port in after):
        return name
    alike = (port.name == name or (port.variadic and port.name == stem) for port in before)
    found = next(((place, port) for place, (port, is_it) in enumerate(zip(before, alike, strict=True)) if is_it), None)
    if found is None or not after:
        return None
    place = found[0] + (int(slot) if found[1].variadic else 0)
    port = after[min(place, len(after) - 1)]
    if not kinds_fit(found[1].kind, port.kind) or (place >= len(after) and not port.variadic):
        return None
    return f"{port.name}_{max(0, place - len(after) + 1)}" if port.variadic else port.name


def _refuse_fixed(graph: GraphIndex, node: Node, spec: NodeSpec) -> None:
    if node.definition is not None:
        raise GraphError(f"{node.name}{graph.where} is a block: its inside would be lost. Ungroup it first.")
    if {node.type, spec.type} & {"Input", "Output"}:
        raise GraphError(f"{node.name}{graph.where} cannot become a {spec.type}: an Input or Output stays what it is.")
    if node.shares is not None or node.name in graph.sharers:
        other = node.shares or next(iter(graph.sharers[node.name]))
        raise GraphError(f"{node.name}{graph.where} keeps its type {node.type}: it shares weights with {other}.")
