"""Finds nodes and ports by their paths (``"conv1"``, ``"block.conv1"``, ``"block.conv1.input"``) or by a `Node`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

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
    raise UnknownNodeError(f"{shown(node)} is not a node: give a node of the graph, or its name.{_instead(node)}")


def _instead(node: object) -> str:
    if isinstance(node, int | slice):
        return " Nodes are found by name: graph[list(graph)[0]] is the first."
    if isinstance(node, list | tuple):
        return ' Give each by itself, as in graph.connect("a", "sum"); graph.group(["a", "b"], name="block") makes one.'
    return ""


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


Row: TypeAlias = tuple[str, ...]
"""Names of nodes, each of which feeds nothing but the next."""
Run: TypeAlias = tuple[Row, ...]
"""A pattern that repeats in a row: for each time, the names of its nodes in order; at least two times."""

_LONGEST: Final = 8
"""Most nodes of a pattern."""


def runs(content: Content, graph: GraphIndex, resolved: Callable[[str], Mapping[str, object]]) -> list[Run]:
    """Return every run of a graph, in the order of their first nodes.

    A run is a node, or a pattern of several, that is equal again and again. Each node feeds only the next, through the same
    ports each time, and the other inputs come from the same ports each time. Nodes are equal if they have the same type and
    property values, or show equal graphs, and if `resolved` returns equal values for them.
    """
    rows = _Rows(content, graph, resolved)
    found = [run for name in graph.order if rows.previous(name) is None for run in rows.runs_from(name)]
    places = {name: place for place, name in enumerate(graph.order)}
    return sorted(found, key=lambda run: places[run[0][0]])


class _Rows:
    """The rows of a graph; `resolved` returns the inferred values of a node."""

    def __init__(self, content: Content, graph: GraphIndex, resolved: Callable[[str], Mapping[str, object]]) -> None:
        self.graph = graph
        self.resolved = resolved
        self.form = _Forms(content)

    def next(self, name: str) -> str | None:
        """Return the node that a node feeds and nothing else."""
        fed = {split_port(edge.target)[0] for edge in self.graph.edges_out_of(name)}
        return fed.pop() if len(fed) == 1 else None

    def previous(self, name: str) -> str | None:
        """Return the node before one in its row."""
        givers = {split_port(edge.source)[0] for edge in self.graph.edges_into(name)}
        alone = [giver for giver in givers if self.next(giver) == name]
        return alone[0] if len(alone) == 1 else None

    def runs_from(self, name: str) -> Iterator[Run]:
        """Yield the runs in the row that begins with a node: what repeats most often from a place on, then what is longest."""
        row = [name]
        while (name := self.next(row[-1]) or "") and self.previous(name) == row[-1]:
            row.append(name)
        at = begun = 0
        # Where the types of each length begin to repeat: a pattern begins there too, though its first layer may differ.
        since: dict[int, int] = {}
        while at < len(row):
            times, length, begin = 1, 1, at
            for tried in range(1, min(_LONGEST, len(row) - 1 - at) + 1):
                if at == begun or not self._alike(row, at - 1, tried):
                    since[tried] = at
                end = at
                while self._repeats(row, end, tried, first=end == at):
                    end += 1
                start = at + (since.get(tried, at) - at) % tried
                count = (end + tried - start) // tried
                if count > times or count == times > 1:
                    times, length, begin = count, tried, start
            if times > 1:
                begun = begin + times * length
                yield tuple(tuple(row[place : place + length]) for place in range(begin, begun, length))
            at = max(begun, at + 1)

    def _alike(self, row: Sequence[str], at: int, length: int) -> bool:
        nodes = self.graph.nodes
        return at + length < len(row) and nodes[row[at]].type == nodes[row[at + length]].type

    def _repeats(self, row: Sequence[str], at: int, length: int, *, first: bool) -> bool:
        """Return whether a node and that `length` further on are equal, and fed the same way: the first, however it is."""
        if not self._alike(row, at, length):
            return False
        name, other = row[at], row[at + length]
        mine, theirs = (
            {split_port(edge.target)[1]: split_port(edge.source) for edge in self.graph.edges_into(one)}
            for one in (name, other)
        )
        if mine.keys() != theirs.keys() or self.resolved(name) != self.resolved(other):
            return False
        if self.form.of(self.graph.nodes[name]) != self.form.of(self.graph.nodes[other]):
            return False
        giver = row[at + length - 1]
        return all(
            (first or mine[port] == (row[at - 1], source[1])) if source[0] == giver else mine[port] == source
            for port, source in theirs.items()
        )


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
