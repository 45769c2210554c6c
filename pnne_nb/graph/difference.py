"""`diff`: what differs between two documents, by node, whatever was renamed or put into a block in between."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from html import escape
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, final

import msgspec

from pnne_nb.errors import ArgumentError, GraphChangedError, UnknownTypeError, expect, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Edge, Node, split_port
from pnne_nb.graph.storage import replace_file

Kind: TypeAlias = Literal["added", "removed", "renamed", "changed"]
GraphRef: TypeAlias = "NodeGraph | str | Path"

_MARKS: Mapping[Kind, str] = {"added": "+", "removed": "-", "renamed": ">", "changed": "~"}
_COLOURS: Mapping[Kind, str] = {"added": "green", "removed": "red", "renamed": "blue", "changed": "yellow"}
_UNSET = "unset"


@final
class NodeDifference(msgspec.Struct, frozen=True):
    """One node that is not the same in both documents.

    Attributes:
        path: Its path in the second document; of a removed node, in the first.
        kind: Whether it was added, removed, renamed (or moved into another block), or changed. A renamed node may have changed
            too.
        type: Its type in that document.
        before: Its path in the first document; None if it was added.
        properties: Old and new value of each property that differs, as text; the type is one of them.
        inputs: Old and new source of each input port that is fed from elsewhere; ``"unset"`` where nothing feeds it.
    """

    path: str
    kind: Kind
    type: str
    before: str | None
    properties: Mapping[str, tuple[str, str]]
    inputs: Mapping[str, tuple[str, str]]

    @property
    def details(self) -> str:
        """What differs, as text."""
        was = [f"was {self.before}"] if self.kind == "renamed" else []
        values = [f"{name} {old} → {new}" for name, (old, new) in self.properties.items()]
        wires = [f"{port} from {new}, was {old}" for port, (old, new) in self.inputs.items()]
        return "; ".join((*was, *values, *wires))

    def __str__(self) -> str:
        details = self.details
        return f"{_MARKS[self.kind]} {self.path} ({self.type}){f': {details}' if details else ''}"


@final
class GraphDifference(msgspec.Struct, frozen=True):
    """The differences of two documents; a notebook shows a table. It is false if there are none.

    Places, frames and histories of nodes are not compared.

    Attributes:
        nodes: The nodes that differ: those of the second document in its order, then the removed ones.
        names: The names of both documents.
    """

    nodes: tuple[NodeDifference, ...]
    names: tuple[str, str]
    _graphs: tuple[NodeGraph, NodeGraph]

    def __bool__(self) -> bool:
        return bool(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[NodeDifference]:
        return iter(self.nodes)

    @property
    def headline(self) -> str:
        """The result in one line."""
        one, other = self.names
        between = f"{one} → {other}" if one != other else one
        counts = [f"{sum(node.kind == kind for node in self.nodes)} {kind}" for kind in _MARKS]
        told = ", ".join(count for count in counts if not count.startswith("0 "))
        return f"{between}: {told}." if told else f"{between}: no node differs."

    def __repr__(self) -> str:
        return "\n".join((self.headline, *map(str, self.nodes)))

    def _repr_html_(self) -> str:
        cell = "<td style='text-align:left'>"
        rows = "".join(
            f"<tr>{''.join(f'{cell}{escape(text)}</td>' for text in (node.kind, node.path, node.type, node.details))}</tr>"
            for node in self.nodes
        )
        head = "".join(f"<th>{name}</th>" for name in ("", "node", "type", "what"))
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""
        return f"<p><b>{escape(self.headline)}</b></p>{table}"

    def to_html(self, path: str | Path) -> None:
        """Write a page with the table and the pictures of both documents, in which the nodes that differ are framed.

        Args:
            path: The file; its directory must exist.

        Raises:
            GraphFileAccessError: If the file cannot be written.
        """
        one, other = self._graphs
        gone = {node.before: node for node in self.nodes if node.before is not None}
        here = {node.path: node for node in self.nodes if node.kind != "removed"}
        pictures = (
            f"<main><section><h2>Before</h2>{_framed(one, gone).to_html()}</section>"
            f"<section><h2>After</h2>{_framed(other, here).to_html()}</section></main>"
        )
        style = (
            ":root{color-scheme:light dark}body{font:15px system-ui,sans-serif;margin:2rem}img{max-width:100%}"
            "main{display:flex;flex-wrap:wrap}table{border-collapse:collapse}"
            "td,th{padding:.2rem .8rem;border-bottom:1px solid #8884}"
        )
        replace_file(
            path,
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(self.headline)}</title>'
            f"<style>{style}</style><body>{self._repr_html_()}{pictures}</body></html>",
        )


def diff(a: GraphRef, b: GraphRef) -> GraphDifference:
    """Compare two documents node by node.

    Nodes belong together if they have the same path, or if they have the same type and properties and one was renamed or moved
    into another block. A property that has its default is as good as one that is not set.

    Args:
        a: The document before: a graph, or the path of its file.
        b: The document after.

    Raises:
        ArgumentError: If one is neither.
        GraphFileError: If a file cannot be read.
    """
    graphs = _graph(a, "a"), _graph(b, "b")
    with graphs[0].reading(), graphs[1].reading():
        one, other = _Parts(graphs[0]), _Parts(graphs[1])
    pairs = _Pairs(one, other)
    added, removed = other.nodes.keys() - pairs.old.keys(), one.nodes.keys() - pairs.new.keys()
    found: list[NodeDifference] = []
    for path, node in other.nodes.items():
        if path not in added:
            found += _changes(path, one, other, pairs)
        elif not _is_inside(path, added):
            found.append(NodeDifference(path, "added", node.type, None, {}, {}))
    found += [
        NodeDifference(path, "removed", node.type, path, {}, {})
        for path, node in one.nodes.items()
        if path in removed and not _is_inside(path, removed)
    ]
    return GraphDifference(tuple(found), (graphs[0].name, graphs[1].name), graphs)


def assert_unchanged(graph: NodeGraph, path: str | Path) -> None:
    """Fail unless a document is what a file holds: a test that a model's structure stays as it is.

    Args:
        graph: The document, such as ``pn.from_module(net, args)``.
        path: The file with the expected document, written by ``graph.save``.

    Raises:
        GraphChangedError: If a node differs; it is an ``AssertionError`` too, and lists the differences.
        GraphFileError: If the file cannot be read.
    """
    expect(graph, NodeGraph, "graph", "a NodeGraph", "Write pn.from_module(net, args=(x,)) for a module.")
    found = diff(path, graph)
    if found:
        raise GraphChangedError(
            f"{graph.name} is not what {str(path)!r} holds. {found!r}\n"
            f'If it is meant so, write graph.save("{Path(path).as_posix()}").'
        )


def _graph(given: object, name: str) -> NodeGraph:
    if isinstance(given, NodeGraph):
        return given
    if isinstance(given, str | Path):
        return NodeGraph.load(given)
    raise ArgumentError(
        f"{name} must be a NodeGraph or the path of its file, not {shown(given)}. For a module, write "
        "pn.from_module(net, args=(x,))."
    )


class _Wire(NamedTuple):
    node: str
    port: str


class _Parts:
    """All nodes of a document by path, at each place of use, and what feeds them."""

    def __init__(self, graph: NodeGraph) -> None:
        self.nodes: dict[str, Node] = {}
        self.children: dict[str, list[str]] = {}
        self.inputs: defaultdict[str, dict[str, list[_Wire]]] = defaultdict(dict)
        views = {id: (list(view.nodes.values()), view.edges) for id, view in graph.graphs.items()}
        self._walk(views, "", "")

    def _walk(self, views: Mapping[str, tuple[list[Node], tuple[Edge, ...]]], id: str, path: str) -> None:
        nodes, edges = views[id]
        prefix = f"{path}." if path else ""
        self.children[path] = [f"{prefix}{node.name}" for node in nodes]
        for node in nodes:
            self.nodes[f"{prefix}{node.name}"] = node
            if node.definition is not None:
                self._walk(views, node.definition, f"{prefix}{node.name}")
        for edge in edges:
            (source, out), (target, port) = split_port(edge.source), split_port(edge.target)
            self.inputs[f"{prefix}{target}"].setdefault(port, []).append(_Wire(f"{prefix}{source}", out))

    def sources(self, path: str) -> dict[str, list[_Wire]]:
        """Return what feeds each input port of a node, wherever the borders of blocks are."""
        return {
            port: [each for wire in wires for each in self._from(wire)] for port, wires in self.inputs[path].items()
        }

    def _from(self, wire: _Wire) -> list[_Wire]:
        node, inner = self.nodes[wire.node], f"{wire.node}.{wire.port}"
        if wire.node in self.children and inner in self.nodes:
            wires = [each for port in self.inputs[inner].values() for each in port]
        elif node.type == "Input" and (around := self.parent(wire.node)):
            wires = self.inputs[around].get(node.name, [])
        else:
            return [wire]
        return [each for outer in wires for each in self._from(outer)] or [wire]

    def properties(self, path: str) -> dict[str, str]:
        """Return the values that are not the default, as text."""
        node = self.nodes[path]
        try:
            defaults = {each.name: each.default for each in node.spec.properties}
        except UnknownTypeError:
            defaults = {}
        return {
            name: _text(value)
            for name, value in node.properties.items()
            if name != "definition" and not (name in defaults and defaults[name] == value)
        }

    def look(self, path: str) -> Hashable:
        """Return what a node has in common with itself under another name: its type and values, or what it holds."""
        held = tuple(sorted(self.nodes[each].type for each in self.children.get(path, ())))
        return self.nodes[path].type, tuple(sorted(self.properties(path).items())), held

    def leaf(self, path: str) -> str:
        """Return the name of a node within its graph."""
        return self.nodes[path].name

    def parent(self, path: str) -> str:
        """Return the path of the block around a node."""
        return path[: -len(self.leaf(path)) - 1]


class _Pairs:
    """Which nodes of two documents are the same: new paths by old ones, and the other way round."""

    def __init__(self, one: _Parts, other: _Parts) -> None:
        self.new: dict[str, str] = {}
        self.old: dict[str, str] = {}
        self._one, self._other = one, other
        self._match("", "")
        # What was put into a block, or taken out of one.
        self._pair(one.nodes, other.nodes, lambda parts, path: (parts.leaf(path), parts.look(path)))
        self._pair(
            one.nodes,
            other.nodes,
            lambda parts, path: (parts.leaf(path), parts.nodes[path].type) if path not in parts.children else None,
        )
        # Renamed as well: only what the same nodes feed, or what is the only one of its kind, is taken for the same.
        self._pair(one.nodes, other.nodes, _Parts.look, fed=(True,))
        olds, news = (self._singles(parts, paired) for parts, paired in ((one, self.new), (other, self.old)))
        for look in olds.keys() & news.keys():
            self._join(olds[look], news[look])

    def _match(self, before: str, after: str) -> None:
        """Pair the nodes of two graphs that are the same one, and what is inside them."""
        ones, others = self._one.children[before], self._other.children[after]
        names = {self._other.leaf(path): path for path in others}
        for path in ones:
            if (same := names.get(self._one.leaf(path))) is not None and self._are_alike(path, same):
                self._join(path, same)
        self._pair(ones, others, _Parts.look)
        for path in self._left(ones, self.new):
            if (same := names.get(self._one.leaf(path))) is not None and same not in self.old:
                self._join(path, same)  # another type under the same name
        for path in ones:
            new = self.new.get(path)
            if new is not None and path in self._one.children and new in self._other.children:
                self._match(path, new)

    def _are_alike(self, path: str, same: str) -> bool:
        return self._one.nodes[path].type == self._other.nodes[same].type

    def _join(self, before: str, after: str) -> None:
        self.new[before], self.old[after] = after, before

    def _pair(
        self,
        ones: Iterable[str],
        others: Iterable[str],
        key: Callable[[_Parts, str], Hashable],
        fed: tuple[bool, ...] = (True, False),
    ) -> None:
        """Pair nodes with equal keys: first those that the same nodes feed, then in their order."""
        for same in fed:
            waiting: defaultdict[Hashable, list[str]] = defaultdict(list)
            for path in self._left(others, self.old):
                waiting[key(self._other, path), same and self._fed(self._other, path)].append(path)
            for path in self._left(ones, self.new):
                candidates = waiting[key(self._one, path), same and self._fed(self._one, path)]
                if candidates and key(self._one, path) is not None:
                    self._join(path, candidates.pop(0))

    def _singles(self, parts: _Parts, paired: Mapping[str, str]) -> dict[Hashable, str]:
        """Return the unpaired nodes with values of their own that no other unpaired node looks like."""
        looks: defaultdict[Hashable, list[str]] = defaultdict(list)
        for path in self._left(parts.nodes, paired):
            if parts.properties(path):
                looks[parts.look(path)].append(path)
        return {look: paths[0] for look, paths in looks.items() if len(paths) == 1}

    def _fed(self, parts: _Parts, path: str) -> Hashable:
        wires = (wire for port in parts.sources(path).values() for wire in port)
        return frozenset(self.moved(wire) if parts is self._one else wire for wire in wires)

    def moved(self, wire: _Wire) -> _Wire:
        """Return the end of an edge as it is named in the second document."""
        return _Wire(self.new.get(wire.node, wire.node), self.port(wire.node, wire.port))

    def port(self, path: str, port: str) -> str:
        """Return the name in the second document of a port of a node of the first: a block's are named after nodes inside."""
        inner = self.new.get(f"{path}.{port}") if path in self._one.children else None
        return port if inner is None else self._other.leaf(inner)

    @staticmethod
    def _left(paths: Iterable[str], paired: Mapping[str, str]) -> list[str]:
        return [path for path in paths if path not in paired]


def _changes(path: str, one: _Parts, other: _Parts, pairs: _Pairs) -> Iterator[NodeDifference]:
    """Yield how a node of both documents differs, if it does."""
    node, before = other.nodes[path], pairs.old[path]
    old, new = one.properties(before), other.properties(path)
    if one.nodes[before].type != node.type:
        old, new = {"type": one.nodes[before].type}, {"type": node.type}
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    properties = {name: (old.get(name, _UNSET), new.get(name, _UNSET)) for name in names}
    fed = {
        pairs.port(before, port): ([pairs.moved(wire) for wire in wires], wires)
        for port, wires in one.sources(before).items()
    }
    now_fed = other.sources(path)
    inputs = {}
    for port in {**fed, **now_fed}:
        (moved, wires), now = fed.get(port, ([], [])), now_fed.get(port, [])
        if moved != now:
            inputs[port] = _ends(wires), _ends(now)
    around = pairs.new.get(parent) if (parent := one.parent(before)) else ""
    is_renamed = node.name != one.leaf(before) or around != other.parent(path)
    if is_renamed or properties or inputs:
        yield NodeDifference(path, "renamed" if is_renamed else "changed", node.type, before, properties, inputs)


def _is_inside(path: str, blocks: AbstractSet[str]) -> bool:
    """Return whether a block around a node is among `blocks`, whose own row says it all."""
    around = path
    while "." in around:
        around = around.rpartition(".")[0]
        if around in blocks:
            return True
    return False


def _ends(wires: list[_Wire]) -> str:
    return " and ".join(f"{node}.{port}" for node, port in wires) or _UNSET


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _framed(graph: NodeGraph, marked: Mapping[str, NodeDifference]) -> NodeGraph:
    """Return a copy of a document in which each outermost node of `marked`, or the block around it, has a frame."""
    copy = NodeGraph.from_json(graph.to_json())
    copy.arrange()
    for name in dict.fromkeys(path.partition(".")[0] for path in marked):
        kind = marked[name].kind if name in marked else "changed"
        copy.frames.add(kind, around=[name], colour=_COLOURS[kind])
    return copy
