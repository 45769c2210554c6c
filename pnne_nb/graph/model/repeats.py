"""Finds equal nodes in a row, which can be shown as one, as the browser does (``tests/cases/repeats.json``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from pnne_nb.graph.model.content import Content, GraphIndex
from pnne_nb.graph.model.node import Node, split_port
from pnne_nb.graph.schema.values import to_json

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
