"""What writing a document gives: the text, by class, and which of its lines belong to which node."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import final

import msgspec

from pnne_nb.compiler.program import Program


class Line(msgspec.Struct, frozen=True):
    """Where one node stands in the text.

    Attributes:
        definition: The graph that holds the node.
        node: Its name there.
        variables: The local variables that hold the inputs of its call; empty in a constructor.
        calls: Whether the line is the node's call, rather than its construction.
    """

    definition: str
    node: str
    variables: tuple[str, ...] = ()
    calls: bool = True


@final
class Part(msgspec.Struct, frozen=True):
    """Some lines of a class.

    Attributes:
        lines: Its text.
        places: What stands where, by line number, from 1.
        used: Which of the modules that source may import occur.
        imports: Names that stand for registered objects, with their targets.
    """

    lines: list[str]
    places: dict[int, Line]
    used: set[str]
    imports: dict[str, str]


@final
class Section:
    """The class of one definition as it is written. The next text takes it over while nothing in it has changed.

    Attributes:
        program: What it was written from.
        context: What it says beside that: names of other classes and of registered objects.
        head: Up to its ``forward``, with what sets it off from the class before.
        body: Its ``forward``, which the next text also takes over while only what is constructed has changed.
        lines: Its text.
        opaque: Paths of the opaque modules, as its constructor takes them.
        used: Which of the modules that source may import occur.
        imports: Names that stand for registered objects, with their targets.
    """

    def __init__(
        self, program: Program, context: object, head: Part, body: Part, opaque: tuple[tuple[str, ...], ...]
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

    def places(self, above: int) -> Iterator[tuple[int, Line]]:
        """Yield what stands where, by line number, from 1, where so many lines stand before the class."""
        for part in (self.head, self.body):
            for number, line in part.places.items():
                yield number + above, line
            above += len(part.lines)


@final
class Generated(msgspec.Struct, frozen=True, dict=True):  # dict: for what is derived once from the fields
    """Source and what is known about it.

    Attributes:
        name: Name of the root class.
        text: The whole module.
        header: What of it stands before the classes.
        sections: The classes in their order, by definition, each with the number of lines before it.
        classes: Name of the class of each definition.
        imports: Names in the text that stand for registered objects, with their targets.
        absent: Buffers whose values are not in the document, by definition.
        devices: Where submodules are put, by path.
        boxes: Paths of the modules that run code of their own on what the document says, each before those inside it.
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

    @functools.cached_property
    def lines(self) -> dict[int, Line]:
        """What stands where, by line number, from 1. It is looked up when something fails or is explained."""
        return {number: line for above, section in self.sections.values() for number, line in section.places(above)}

    @functools.cached_property
    def drawn(self) -> frozenset[str]:
        """Names of what the root class holds beside the module that its objects themselves are."""
        program = self.sections[""][1].program
        return frozenset(member.name.partition(".")[0] for member in program.members if member.name != program.whole)

    @property
    def opaque(self) -> tuple[str, ...]:
        """Paths of the opaque modules, in the order in which the root class's constructor takes them."""
        root = self.sections[""][1]
        return tuple(root.program.below(path[0], ".".join(path[1:])) for path in root.opaque)
