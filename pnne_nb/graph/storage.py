"""Graph files: JSON, the same text for equal documents, one line for each node and edge.

`DocumentState` is a document as plain data, in a file and for a browser. `process.atomic_file` writes files.

Reading imports nothing and runs nothing. An error names the place (``$.graphs[""].nodes[3].type``). Node types and properties
are not checked, so a file opens even if its types are not registered (``lint`` reports them).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from pnne_nb.errors import (
    LONGEST,
    GraphError,
    GraphFileAccessError,
    GraphFileError,
    GraphFileNotFoundError,
    expect,
    shown,
)
from pnne_nb.graph.edits.apply import apply_op, check_ends, check_free, make_node
from pnne_nb.graph.model.annotation import Frame
from pnne_nb.graph.model.content import Content, GraphIndex, Parts, topological_order
from pnne_nb.graph.model.lint import MAX_NODES, extent
from pnne_nb.graph.model.node import Edge, Node, split_port
from pnne_nb.graph.model.ops import AddFrame, AddGraph, AddNode, RenameDocument, SetSize
from pnne_nb.graph.model.origin import Origin
from pnne_nb.graph.model.validate import checked_size
from pnne_nb.graph.schema.calculation import Sizes, again, names_used
from pnne_nb.graph.schema.values import from_json, to_json
from pnne_nb.process import atomic_file
from pnne_nb.process.gc_pause import without_collections


class NodeState(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A node in a file; property values are in their JSON form."""

    name: str
    type: str
    properties: dict[str, object] = {}
    position: tuple[float, float] | None = None
    origin: Origin | None = None
    collapsed: bool = False


class EdgeState(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An edge, from output ``"node.port"`` to input ``"node.port"``."""

    source: str
    target: str


class GraphState(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """One graph: nodes in their order, edges in theirs, frames by name."""

    nodes: tuple[NodeState, ...] = ()
    edges: tuple[EdgeState, ...] = ()
    frames: tuple[Frame, ...] = ()


class DocumentState(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A whole document, as in a ``.pnne.json`` file.

    Attributes:
        graphs: ``""`` is the root; the others are definitions of Subgraph nodes.
        sizes: Named sizes, by name, in their JSON form.
    """

    format: str
    format_version: int
    name: str
    graphs: dict[str, GraphState]
    sizes: dict[str, object] = {}


FORMAT = "pnne-graph"
FORMAT_VERSION = 1
DEEPEST = 500
"""Greatest depth of nested graphs in a file: far more than can be compiled, and safe to read."""

_T = TypeVar("_T")


def state_of(content: Content) -> DocumentState:
    """Return a document as plain data, values in their JSON form."""
    return state(content.name, content.parts(), content.sizes)


def state(name: str, parts: Parts, sizes: Sizes) -> DocumentState:
    """Return a document of that name, these parts and these named sizes as plain data."""
    with without_collections():
        graphs = {
            id: GraphState(
                tuple(map(node_state, nodes)),
                tuple(EdgeState(*edge) for edge in edges),
                tuple(frames[name] for name in sorted(frames)),
            )
            for id, (nodes, edges, frames) in parts.items()
        }
    named = {name: to_json(sizes[name]) for name in sorted(sizes)}
    return DocumentState(format=FORMAT, format_version=FORMAT_VERSION, name=name, graphs=graphs, sizes=named)


def node_state(node: Node) -> NodeState:
    """Return a node as plain data, values in their JSON form."""
    properties = {name: to_json(node.properties[name]) for name in sorted(node.properties)}
    return NodeState(node.name, node.type, properties, node.position, node.origin, node.collapsed)


def write(document: DocumentState) -> str:
    """Return the text of a graph file: nodes in their order, all else sorted."""
    graphs = ",\n".join(_graph_text(id, document.graphs[id]) for id in sorted(document.graphs))
    head: dict[str, object] = {
        "format": document.format,
        "formatVersion": document.format_version,
        "name": document.name,
    }
    if document.sizes:
        head["sizes"] = document.sizes
    lines = "".join(f"  {_line(key)}: {_line(value)},\n" for key, value in head.items())
    return f'{{\n{lines}  "graphs": {{\n{graphs}\n  }}\n}}\n'


def read(text: str | bytes) -> Content:
    """Build a document from the text of a graph file.

    Raises:
        GraphFileError: If it is damaged, hostile, or from a newer version.
        ArgumentError: If `text` is no text.
    """
    expect(text, (str, bytes), "text", "the text of a graph file", "pn.NodeGraph.load(path) reads a file.")
    data = _parse(text)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        _fail("$.format", f"this is not a graph file: it does not say {FORMAT!r}.")
    version = data.get("formatVersion")
    if isinstance(version, int) and version > FORMAT_VERSION:
        _fail(
            "$.formatVersion",
            f"the file has format version {shown(version)}, and this pnne_nb reads up to {FORMAT_VERSION}. "
            "Install a newer pnne_nb.",
        )
    if isinstance(version, bool) or version != FORMAT_VERSION:
        _fail("$.formatVersion", f"there is no format version {shown(version)}.")
    for key in data:
        if key not in ("format", "formatVersion", "name", "graphs", "sizes"):
            _fail("$", f"there should be no field {shown(key)}.")
    graphs = data.get("graphs")
    if not isinstance(graphs, dict) or "" not in graphs:
        _fail("$.graphs", 'the graphs must be an object with at least the outermost graph, "".')
    content = Content("")
    _placed("$.name", lambda: apply_op(content, RenameDocument(data.get("name", ""))))
    _read_sizes(content, data.get("sizes", {}))
    states = {id: _convert(graph, GraphState, _at(id)) for id, graph in graphs.items()}
    # Checked before nodes are made, and again below with every use of a definition.
    if (total := sum(len(state.nodes) for state in states.values())) > MAX_NODES:
        _fail("$.graphs", f"the file has {total} nodes; the limit is {MAX_NODES}.")
    for id in states:
        if id:
            _placed(_at(id), lambda id=id: apply_op(content, AddGraph(id)))
    for id, state in states.items():
        _read_nodes(content, content.graphs[id], state.nodes)
    for id, state in states.items():
        _read_edges(content, content.graphs[id], state.edges)
        _read_frames(content, id, state.frames)
    total, depth = extent(content)
    if depth > DEEPEST:
        _fail("$.graphs", f"graphs are nested {depth} deep; the limit is {DEEPEST}.")
    if total > MAX_NODES:
        _fail(
            "$.graphs",
            f"with every use of its definitions counted, the file has {total} nodes; the limit is {MAX_NODES}.",
        )
    return content


def _graph_text(id: str, graph: GraphState) -> str:
    nodes = [_line(msgspec.to_builtins(node)) for node in graph.nodes]
    edges = [_line(msgspec.to_builtins(edge)) for edge in graph.edges]
    # An input has one edge at most, so its target identifies the edge.
    edges.sort(key=lambda line: line.partition('"target": ')[2])
    lists = f'"nodes": {_lines(nodes)},\n      "edges": {_lines(edges)}'
    if graph.frames:
        frames = (
            {key: value for key, value in msgspec.structs.asdict(frame).items() if value} for frame in graph.frames
        )
        lists += f',\n      "frames": {_lines(list(map(_line, frames)))}'
    return f"    {_line(id)}: {{\n      {lists}\n    }}"


def _lines(items: list[str]) -> str:
    return "[\n" + ",\n".join(f"        {item}" for item in items) + "\n      ]" if items else "[]"


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _parse(text: str | bytes) -> Any:
    if len(text) > MAX_BYTES:
        _fail("$", f"the text is longer than {MAX_BYTES} bytes.")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        data = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        if "\\u" in text:
            # An escaped half of a surrogate pair could be read, but not written or sent.
            json.dumps(data, ensure_ascii=False).encode()
        return data
    except json.JSONDecodeError as error:
        end = " The file seems to be cut off." if error.pos >= len(str(text).rstrip()) else ""
        _fail(f"line {error.lineno}, column {error.colno}", f"this is not JSON: {error.msg}.{end or _path(text)}")
    except UnicodeError as error:
        _fail("$", f"this is not UTF-8 text: {error}.")
    except RecursionError:
        _fail("$", "the file is nested too deeply.")
    except ValueError as error:
        # For a number of thousands of digits, the message of Python names its own settings.
        _fail("$", "a number in it has too many digits." if "digits" in str(error) else f"{error}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} appears twice in one object.")
    return result


def _path(text: str | bytes) -> str:
    given = str(text)
    return (
        f" {shown(given)} seems to be a path. Write pn.NodeGraph.load({shown(given)})."
        if len(given) < LONGEST and "{" not in given
        else ""
    )


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f'{name} is not JSON; write {{"$float": …}}.')


def _read_sizes(content: Content, sizes: object) -> None:
    if not isinstance(sizes, dict):
        _fail("$.sizes", "the sizes must be an object of numbers by name.")
    pending = {name: _constant(value, f"$.sizes.{name}") for name, value in sizes.items()}
    while pending:
        ready = [name for name, value in pending.items() if not any(used in pending for used in names_used(value))]
        if not ready:
            _fail("$.sizes", f"{' and '.join(pending)} are calculated from each other.")
        for name in ready:
            # A calculation is done again: somebody may have edited the number that it is made of.
            size = SetSize(name, pending.pop(name))
            _placed(f"$.sizes.{name}", lambda size=size: apply_op(content, checked_size(content, size)))


def _read_nodes(content: Content, graph: GraphIndex, nodes: tuple[NodeState, ...]) -> None:
    for place, state in enumerate(nodes):
        at = f"{_at(graph.id)}.nodes[{place}]"
        properties = {name: _constant(value, f"{at}.properties.{name}") for name, value in state.properties.items()}
        for name, value in properties.items():
            if used := names_used(value):
                if unknown := [each for each in used if each not in content.sizes]:
                    _fail(f"{at}.properties.{name}", f"the file has no size {unknown[0]!r}.")
                properties[name] = _placed(at, lambda value=value: again(value, content.sizes))
        op = AddNode(state.name, state.type, properties, state.position, graph.id, None, state.origin, state.collapsed)
        node = _placed(at, lambda op=op: make_node(content, graph, op))
        graph.insert_node(node)
        content.use(graph.id, node)


def _read_edges(content: Content, graph: GraphIndex, edges: tuple[EdgeState, ...]) -> None:
    for place, state in enumerate(edges):
        edge = Edge(state.source, state.target)
        at = f"{_at(graph.id)}.edges[{place}]"
        _placed(at, lambda edge=edge: check_ends(content, graph, edge))
        _placed(at, lambda edge=edge: check_free(graph, edge))
        graph.insert_edge(edge)
    _, looped = topological_order(graph)
    if looped:
        names = set(looped)
        place = next(
            i for i, edge in enumerate(edges) if {split_port(end)[0] for end in (edge.source, edge.target)} <= names
        )
        _fail(f"{_at(graph.id)}.edges[{place}]", f"the edges form a loop through {', '.join(map(repr, looped[:5]))}.")


def _read_frames(content: Content, graph: str, frames: tuple[Frame, ...]) -> None:
    for place, frame in enumerate(frames):
        op = AddFrame(frame.name, frame.box, frame.title, frame.text, frame.colour, graph)
        _placed(f"{_at(graph)}.frames[{place}]", lambda op=op: apply_op(content, op))


def _constant(value: object, at: str) -> object:
    try:
        return from_json(value)
    except ValueError as error:
        _fail(at, str(error))


def _convert(data: object, kind: type[_T], at: str) -> _T:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        _fail(at + place.rstrip("`"), f"{reason}.")


def _placed(at: str, action: Any) -> Any:
    try:
        return action()
    except (GraphError, ValueError) as error:
        _fail(at, str(error))


def _at(id: str) -> str:
    return f"$.graphs[{json.dumps(id)}]"


def _fail(at: str, reason: str) -> NoReturn:
    raise GraphFileError(f"The graph file cannot be read, at {at}: {reason}") from None


MAX_BYTES = 64 * 2**20
"""Largest size of a file."""


def read_file(path: str | Path) -> bytes:
    """Return the contents of a file.

    Raises:
        GraphFileError: If it is too large to be a graph file.
        GraphFileNotFoundError: If there is none.
        GraphFileAccessError: If it cannot be read.
    """
    with _accessing(path, "read") as file:
        size = file.stat().st_size
        content = file.read_bytes() if size <= MAX_BYTES else None
    if content is None:
        raise GraphFileError(f"{file} has {size} bytes; a graph file has at most {MAX_BYTES}.")
    return content


def tables_beside(path: str | Path) -> Path:
    """Return the path of the file with the large fixed tables of a graph file."""
    return Path(path).with_suffix(".values.safetensors")


def replace_file(path: str | Path, content: str | bytes) -> None:
    """Write a file so that a crash leaves either the old one or the new one.

    Raises:
        GraphFileNotFoundError: If there is no such directory.
        GraphFileAccessError: If it cannot be written; the old one is untouched.
    """
    with _accessing(path, "written") as target:
        atomic_file.replace_file(target, content.encode() if isinstance(content, str) else content)


@contextmanager
def _accessing(path: str | Path, what: str) -> Iterator[Path]:
    """Convert errors of the system about a file to errors about a graph file."""
    expect(path, (str, os.PathLike), "path", "the path of a graph file")
    try:
        yield Path(path)
    except FileNotFoundError as error:
        place = str(path)[:200]
        missing = f"graph file {place!r}" if what == "read" else f"directory {str(Path(place).parent)!r} for {place!r}"
        raise GraphFileNotFoundError(f"There is no {missing}.") from error
    except OSError as error:
        raise GraphFileAccessError(f"{str(path)[:200]!r} cannot be {what}: {error.strerror or error}.") from error
    except ValueError as error:
        raise GraphFileAccessError(f"{str(path)[:200]!r} cannot be {what}: it is not the path of a file.") from error
