"""The readable source of a document with the lines of each node, as far as the document is finished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pnne_nb.compiler.codegen.source_map import Generated
from pnne_nb.compiler.ir.program import Nested, Opaque
from pnne_nb.compiler.pipeline.compile import readable
from pnne_nb.compiler.shapes.infer import failure
from pnne_nb.errors import CompileError, Diagnostic, ShapeError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import split_port

_ATTEMPTS = 8
"""Most attempts to leave out wrong nodes: each may have hidden others."""


class SourceClass(msgspec.Struct, frozen=True):
    """Where the nodes of one class of the source stand.

    Attributes:
        lines: Line numbers from 1, by name of the node.
        members: The classes of the blocks among them, by name of the node.
    """

    lines: dict[str, tuple[int, ...]]
    members: dict[str, str]


class LocatedSource(msgspec.Struct, frozen=True):
    """Source with the lines of its nodes.

    Attributes:
        text: The source; empty if nothing can be written yet.
        classes: Its classes, by id; that of the whole graph is ``""``.
        error: Everything that keeps the document from compiling; None if nothing does.
        complete: Whether all nodes are in the source.
    """

    text: str
    classes: dict[str, SourceClass]
    error: CompileError | None = None
    complete: bool = True

    @property
    def notice(self) -> str:
        """What is to be said of the source; empty if nothing is."""
        if self.error is None:
            return ""
        missing = "Without what is wrong, and what follows it:\n" if self.text and not self.complete else ""
        return f"{missing}{self.error}"


def located_source(graph: NodeGraph) -> LocatedSource:
    """Return the source of a document; of one that is unfinished, without what is wrong and what follows that.

    Raises:
        CompileError: If a name or a value cannot be written.
    """
    try:
        generated, misfits = readable(graph)
        found, unfinished, complete = _located(generated), list[Diagnostic](), True
    except CompileError as error:
        if not error.diagnostics:
            raise
        unfinished = list(error.diagnostics)
        part = _finished_part(graph, unfinished)
        if part is None:
            return LocatedSource("", {}, error, complete=False)
        generated, misfits, complete = part
        found = _located(generated)
    wrong = [*unfinished, *misfits]
    error_of_all = failure(graph.name, wrong, CompileError if unfinished else ShapeError) if wrong else None
    return msgspec.structs.replace(found, error=error_of_all, complete=complete)


def _located(generated: Generated) -> LocatedSource:
    lines: dict[str, dict[str, list[int]]] = {}
    for number, line in generated.lines.items():
        for node in (line.node, *line.nested):
            lines.setdefault(line.definition, {}).setdefault(node, []).append(number)
    classes = {}
    for id, (_, section) in generated.sections.items():
        members = {
            member.name: member.definition
            for member in section.program.members
            if isinstance(member, (Nested, Opaque)) and member.definition
        }
        numbers = {node: tuple(found) for node, found in lines.get(id, {}).items()}
        classes[id] = SourceClass(numbers, members)
    return LocatedSource(generated.text, classes)


def _finished_part(
    graph: NodeGraph, diagnostics: Sequence[Diagnostic]
) -> tuple[Generated, list[Diagnostic], bool] | None:
    """Return the source of a copy without the nodes that are wrong and all that they lead to; None if nothing is left.

    Also return where shapes do not fit in it, and whether no node was left out.
    """
    part = NodeGraph.from_json(graph.to_json())
    for _ in range(_ATTEMPTS):
        wrong = {found.node.partition(".")[0] for found in diagnostics if found.node} & set(part.nodes)
        gone = _downstream(part, wrong)
        left = {name: node.type for name, node in part.nodes.items() if name not in gone}
        has_output = "Output" in left.values()
        if (not gone and has_output) or set(left.values()) <= {"Input", "Output"}:
            return None
        for name in gone:
            part.remove(name)
        _give_open_results(part, left)
        try:
            generated, misfits = readable(part)
            return generated, misfits, set(part.nodes) >= set(graph.nodes)
        except CompileError as error:
            diagnostics = error.diagnostics
    return None


def _downstream(graph: NodeGraph, names: Iterable[str]) -> set[str]:
    """Return nodes with all that they lead to, and those that use their weights."""
    followers: dict[str, list[str]] = {}
    for edge in graph.edges:
        followers.setdefault(split_port(edge.source)[0], []).append(split_port(edge.target)[0])
    for name, node in graph.nodes.items():
        if node.shares is not None:
            followers.setdefault(node.shares, []).append(name)
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += followers.get(name, ())
    return found


def _give_open_results(graph: NodeGraph, types: Mapping[str, str]) -> None:
    """Give a graph that has lost its Outputs one for each result that nothing takes."""
    if "Output" in types.values():
        return
    used = {split_port(edge.source)[0] for edge in graph.edges}
    for name, type in types.items():
        if type != "Input" and name not in used:
            graph.connect(name, graph.add("Output"))
