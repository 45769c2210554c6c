"""Generated source, by class, with a map from its lines to nodes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import final

import msgspec

from pnne_nb.compiler.ir.program import Program


class NodeLine(msgspec.Struct, frozen=True, gc=False):  # a tree, and one for each line
    """The node that a line of source belongs to.

    Attributes:
        definition: The graph that holds the node.
        node: Its name there.
        variables: The local variables that hold the inputs of its call; empty in a constructor.
        calls: Whether the line is the node's call, rather than its construction.
        nested: The nodes whose calls are written inside the node's call.
    """

    definition: str
    node: str
    variables: tuple[str, ...] = ()
    calls: bool = True
    nested: tuple[str, ...] = ()


@final
class SourcePart(msgspec.Struct, frozen=True):
    """Some lines of a class, with their nodes.

    Attributes:
        lines: Its text.
        places: Node by line number, from 1.
        used: Which of the modules that source may import occur.
        imports: Names of registered objects, with their targets.
    """

    lines: list[str]
    places: dict[int, NodeLine]
    used: set[str]
    imports: dict[str, str]


@final
class Section:
    """The source of one class. Later texts reuse it while its program is unchanged.

    Attributes:
        program: What it was written from.
        context: What its text depends on beside its program: names of other classes and of registered objects.
        head: Up to its ``forward``, with what sets it off from the class before.
        body: Its ``forward``, which the next text also takes over while only what is constructed has changed.
        lines: Its text.
        opaque: Paths of the opaque modules, as its constructor takes them.
        used: Which of the modules that source may import occur.
        imports: Names of registered objects, with their targets.
    """

    def __init__(
        self, program: Program, context: object, head: SourcePart, body: SourcePart, opaque: tuple[tuple[str, ...], ...]
    ) -> None:
        self.program = program
        self.context = context
        self.head = head
        self.body = body
        self.lines = [*head.lines, *body.lines]
        self.opaque = opaque
        self.used = head.used | body.used
        self.imports = {**head.imports, **body.imports}

    @functools.cached_property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines) + "\n"

    def places(self, above: int) -> Iterator[tuple[int, NodeLine]]:
        """Yield line number (from 1) and node, for a class that begins after so many lines."""
        for part in (self.head, self.body):
            for number, line in part.places.items():
                yield number + above, line
            above += len(part.lines)


@final
class Generated(msgspec.Struct, frozen=True, dict=True):  # dict: for what is derived once from the fields
    """Generated source with its source map.

    Attributes:
        name: Name of the root class.
        text: The whole module.
        header: Its part before the classes.
        sections: The classes in their order, by definition, each with the number of lines before it.
        classes: Name of the class of each definition.
        imports: Names of registered objects in the text, with their targets.
        absent: Parameters and buffers whose values are not in the document, by definition.
        devices: Where submodules are put, by path.
        boxes: Paths of opaque modules that run their own code on nodes of the document, outer ones first.
        frozen: Paths of the modules and parameters that are not trained.
        still: Paths of the modules that stay in eval mode.
    """

    name: str
    text: str
    header: str
    sections: dict[str, tuple[int, Section]]
    classes: dict[str, str]
    imports: dict[str, str]
    absent: dict[str, tuple[str, ...]]
    devices: dict[str, str]
    boxes: tuple[str, ...]
    frozen: tuple[str, ...]
    still: tuple[str, ...]

    @functools.cached_property
    def lines(self) -> dict[int, NodeLine]:
        """The node of each line, by line number from 1; computed when an error or `explain` asks for it."""
        return {number: line for above, section in self.sections.values() for number, line in section.places(above)}

    @functools.cached_property
    def drawn(self) -> frozenset[str]:
        """Names of members of the root class beside those of the imported module that it is."""
        program = self.sections[""][1].program
        return frozenset(member.name.partition(".")[0] for member in program.members if member.name != program.whole)

    @property
    def opaque(self) -> tuple[str, ...]:
        """Paths of the opaque modules, in the order in which the root class's constructor takes them."""
        root = self.sections[""][1]
        return tuple(root.program.below(path[0], ".".join(path[1:])) for path in root.opaque)
