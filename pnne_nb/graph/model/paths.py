"""Finds nodes and ports by their paths (``"conv1"``, ``"block.conv1"``, ``"block.conv1.input"``) or by a `Node`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from pnne_nb.errors import UnknownNodeError, shown
from pnne_nb.graph.model.content import Content, GraphIndex
from pnne_nb.graph.model.node import Node, split_port, whole_of
from pnne_nb.graph.schema.values import to_json

NodeRef: TypeAlias = "Node | str"
"""A node, or its path."""


def path_of(node: NodeRef) -> str:
    """Return the path of a node.

    Raises:
        UnknownNodeError: If it is neither a node nor a text.
    """
    if isinstance(node, Node):
        return node.path
    if isinstance(node, str):
        return node
    raise UnknownNodeError(f"{shown(node)} is not a node: give a node of the graph, or its name.")


def enter(content: Content, prefix: str, within: str = "") -> GraphIndex:
    """Return the graph inside the Subgraph node of a path from the graph `within`; for an empty path, that graph.

    Raises:
        UnknownNodeError: If there is no such node, or it shows no graph.
    """
    graph = content.require(within)
    if not isinstance(prefix, str):
        raise UnknownNodeError(f"{shown(prefix)} is not the path of a node.")
    if graph is content.graphs[""]:
        prefix = in_names(content, prefix)
    for part in prefix.split(".") if prefix else ():
        node = graph.require(part)
        if node.definition is None:
            raise UnknownNodeError(f"There is nothing inside {shown(part)}{graph.where}: it is a {node.type}.")
        graph = content.graphs[node.definition]
    return graph


def find_node(content: Content, ref: NodeRef, within: str = "") -> tuple[GraphIndex, Node, str]:
    """Return the graph of a node, the node, and the path of the graph with a dot after it.

    Paths start in the graph `within`, by default the root.

    Raises:
        UnknownNodeError: If there is no such node.
    """
    path = path_of(ref)
    if content.require(within) is content.graphs[""]:
        path = in_names(content, path)
    prefix, dot, name = path.rpartition(".")
    graph = enter(content, prefix, within)
    return graph, graph.require(name), prefix + dot


def frozen_around(content: Content, path: str, within: str = "") -> str:
    """Return the path of the outermost frozen block on a path (a final dot does not matter); empty if there is none."""
    graph, done = content.require(within), ""
    for name in path.rstrip(".").split(".") if path else ():
        node = graph.require(name)
        done = f"{done}.{name}" if done else name
        if not node.trainable:
            return done
        graph = content.require(node.definition)
    return ""


def paths_in(content: Content) -> Iterator[str]:
    """Yield the path of every node, nested ones after the node that shows them."""
    return (path for path, _ in named_paths(content))


def named_paths(content: Content) -> Iterator[tuple[str, str]]:
    """Yield the path of every node, as `paths_in` does, and the same with the names of the original: ``layers.0``."""

    def walk(graph: GraphIndex, prefix: str, original: str) -> Iterator[tuple[str, str]]:
        for name in graph.order:
            node = graph.nodes[name]
            path, held = f"{prefix}{name}", f"{original}{node.held or name}"
            yield path, held
            if (inside := content.inside(node)) is not None:
                yield from walk(inside, f"{path}.", f"{held}.")

    return walk(content.graphs[""], "", "")


def find_end(content: Content, ref: NodeRef, *, output: bool) -> tuple[GraphIndex, Node, str]:
    """Return the graph, the node and the port (empty if none is named) of one end of an edge.

    ``"block.x"`` may mean port ``x`` of the node ``block`` or the node ``x`` inside it. If `block` has such a port on that
    side, it means the port: the node inside has none there.

    Raises:
        UnknownNodeError: If there is no such node.
    """
    path = path_of(ref)
    if isinstance(ref, Node):
        graph, node, _ = find_node(content, ref)
        return graph, node, ""
    graph = content.graphs[""]
    parts = in_names(content, path).split(".")
    for place, part in enumerate(parts):
        node = graph.require(part)
        rest = parts[place + 1 :]
        if not rest:
            return graph, node, ""
        if node.definition is None:
            return graph, node, ".".join(rest)
        inside = content.graphs[node.definition]
        if len(rest) == 1 and (rest[0] in _ports(node, inside, output=output) or rest[0] not in inside.nodes):
            return graph, node, rest[0]
        graph = inside
    raise UnknownNodeError(f"There is no node {shown(path)}.")


def in_names(content: Content, path: str) -> str:
    """Return the path of a node in the document in the names of nodes.

    A module that a list of the original holds may be named as there (``layers.0`` for ``layers_0``). If one node is the
    whole model, its name may be left out.
    """
    done: list[str] = []
    graph: GraphIndex | None = content.graphs[""]
    whole = whole_of(content.graphs[""].nodes)
    if whole and _first(content.graphs[""], path) is None:
        inside = content.inside(content.graphs[""].nodes[whole])
        if inside is not None and _first(inside, path) is not None:
            done, graph = [whole], inside
    while path and graph is not None and (found := _first(graph, path)) is not None:
        name, path = found
        done.append(name)
        graph = content.inside(graph.nodes[name])
    return ".".join([*done, path] if path else done)


def _first(graph: GraphIndex, path: str) -> tuple[str, str] | None:
    """Return the name of the first node of a path and the rest of the path; None if there is no such node."""
    first, _, rest = path.partition(".")
    if first in graph.nodes:
        return first, rest
    for name, node in graph.nodes.items():
        if node.held and f"{path}.".startswith(f"{node.held}."):
            return name, path[len(node.held) + 1 :]
    return None


def _ports(node: Node, inside: GraphIndex, *, output: bool) -> tuple[object, ...]:
    if not node.is_box:
        return inside.interface[output]
    listed = node.properties.get("outputs" if output else "inputs")
    return listed if isinstance(listed, tuple) else ("output" if output else "input",)


Run: TypeAlias = tuple[str, ...]
"""Names of equal nodes in a row, the first one first; at least two."""


class _Link(NamedTuple):
    """The only consumer of a node, and the ports of the edges to it."""

    name: str
    how: tuple[str, ...]


def runs(content: Content, graph: GraphIndex, resolved: Callable[[str], Mapping[str, object]]) -> list[Run]:
    """Return every run of a graph, in the order of their first nodes.

    The nodes of a run are equal. Each feeds only the next, through the same ports, and their other inputs come from the same
    ports. Nodes are equal if they have the same type and property values, or show equal graphs, and if `resolved` returns
    equal values for them.
    """
    form = _Forms(content)
    links = {name: _link(graph, name, form, resolved) for name in graph.order}
    follows = {link.name for link in links.values() if link is not None}
    # A row begins here; another run begins where the ports change.
    starts = [name for name in graph.order if name not in follows]
    taken: set[str] = set()
    found: list[Run] = []
    for start in starts:
        run = [start]
        link = first = links[start]
        while link is not None and first is not None and link.how == first.how and link.name not in taken:
            run.append(link.name)
            taken.add(link.name)
            link = links[link.name]
        if link is not None and link.name not in taken:
            starts.append(link.name)
        if len(run) > 1:
            found.append(tuple(run))
    places = {name: place for place, name in enumerate(graph.order)}
    return sorted(found, key=lambda run: places[run[0]])


def _link(graph: GraphIndex, name: str, form: _Forms, resolved: Callable[[str], Mapping[str, object]]) -> _Link | None:
    fed = {split_port(edge.target)[0] for edge in graph.edges_out_of(name)}
    if len(fed) != 1:
        return None
    (following,) = fed
    here, there = graph.nodes[name], graph.nodes[following]
    mine = {split_port(edge.target)[1]: edge.source for edge in graph.edges_into(name)}
    theirs = {split_port(edge.target)[1]: edge.source for edge in graph.edges_into(following)}
    if here.type != there.type or mine.keys() != theirs.keys():
        return None
    if form.of(here) != form.of(there) or resolved(name) != resolved(following):
        return None
    how: list[str] = []
    for port, source in theirs.items():
        giver, output = split_port(source)
        if giver == name:
            how.append(f"{output} {port}")
        elif mine[port] != source:
            return None
    return _Link(following, tuple(sorted(how)))


class _Forms:
    """Makes equal texts for equal nodes.

    Equal definitions have the same number, so that the texts stay short, however deep graphs are nested.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._known: dict[str, int] = {}  # by definition
        self._numbers: dict[str, int] = {}  # by its text

    def of(self, node: Node) -> str:
        inside = None if node.definition is None else self._inside(node.definition)
        own = {
            name: to_json(value)
            for name, value in node.properties.items()
            if name != "definition" or node.definition is None
        }
        return json.dumps([node.type, own, inside], sort_keys=True)

    def _inside(self, definition: str) -> int:
        if definition not in self._known:
            graph = self._content.graphs[definition]
            nodes = [[name, self.of(graph.nodes[name])] for name in graph.order]
            edges = sorted([edge.target, edge.source] for edge in graph.edges.values())
            self._known[definition] = self._numbers.setdefault(json.dumps([nodes, edges]), len(self._numbers))
        return self._known[definition]
