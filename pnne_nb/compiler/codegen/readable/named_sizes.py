"""Writes named sizes of a document as arguments of constructors, ``nn.Linear(hidden, 4*hidden)``, inferred ones too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Several
from typing import final

import msgspec

from pnne_nb.compiler.ir.literals import Formula
from pnne_nb.compiler.ir.program import (
    Argument,
    Call,
    Chain,
    Constant,
    Construction,
    Layer,
    Member,
    Nested,
    Program,
    Result,
    Sequence,
    Unit,
    Weight,
)
from pnne_nb.compiler.ir.snapshot import read
from pnne_nb.compiler.ir.variables import RESERVED, camel, unique
from pnne_nb.compiler.shapes.infer import infer
from pnne_nb.errors import PnneError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.calculation import Sizes, calculated, names_in, names_used
from pnne_nb.graph.schema.values import Calculated, Value, mapped


def with_sizes(unit: Unit, sizes: Sizes) -> Unit:
    """Return a program whose constructors take the sizes that its numbers are calculated from, and pass them on.

    Args:
        unit: The program, in its readable form.
        sizes: The named sizes of the document: numbers, or calculations of others.
    """
    if not sizes:
        return unit
    taken = {*RESERVED, *(camel(id or unit.name) for id in unit.programs)}
    taken |= {target.rpartition(".")[2] for target in unit.objects} | {
        "collections",
        "copy",
        "functools",
        "math",
        "operator",
    }
    given: dict[str, dict[str, str]] = {}
    programs: dict[str, Program] = {}
    for id, program in unit.programs.items():
        own = _Naming(program, sizes, taken, given)
        programs[id] = own.program()
        given[id] = own.arguments
    return msgspec.structs.replace(unit, programs=programs)


@final
class _Naming:
    """One class with named sizes.

    Attributes:
        arguments: The arguments that its constructor has for sizes, by size.
    """

    def __init__(self, program: Program, sizes: Sizes, taken: set[str], given: Mapping[str, Mapping[str, str]]) -> None:
        self._program, self._sizes, self._given = program, sizes, given
        own = {name for name, *_ in program.parameters}
        self._local = {name: unique(name, taken | own) for name in sizes}
        tops = {member.name.partition(".")[0] for member in program.members}
        self._held = {name: f"self.{unique(name, tops)}" for name in sizes}
        self._made: dict[str, None] = {}  # names that the constructor uses
        self._called: dict[str, None] = {}  # names that forward uses
        self.arguments: dict[str, str] = {}

    def program(self) -> Program:
        program = self._program
        if program.whole or program.holds:  # whose constructor takes nothing, or whose own code runs
            return program
        members = tuple(map(self._member, program.members))
        calls = tuple(map(self._call, program.calls))
        results = tuple(map(self._result, program.results))
        derived = self._needed((*self._made, *self._called))
        if not self.arguments and not derived:
            return program
        defaults = tuple((local, "int", Constant(int(self._sizes[name]))) for name, local in self.arguments.items())
        lines = [(self._local[name], _renamed(self._text(name), self._local)) for name in derived]
        return msgspec.structs.replace(
            program,
            members=members,
            calls=calls,
            results=results,
            parameters=(*program.parameters, *defaults),
            sizes=(*lines, *((self._held[name], self._local[name]) for name in self._called)),
        )

    def _needed(self, names: Iterable[str]) -> list[str]:
        """Note the arguments that names need; return the sizes to calculate, each after those that it is made of."""
        derived: dict[str, None] = {}

        def need(name: str) -> None:
            if isinstance(self._sizes[name], Calculated):
                for inner in names_used(self._sizes[name]):
                    need(inner)
                derived[name] = None
            else:
                self.arguments[name] = self._local[name]

        for name in names:
            need(name)
        return list(derived)

    def _text(self, name: str) -> str:
        value = self._sizes[name]
        return value.text if isinstance(value, Calculated) else str(value)

    def _formula(self, used: dict[str, None], written: Mapping[str, str]) -> Callable[[Calculated], Formula]:
        def formula(number: Calculated) -> Formula:
            used.update(dict.fromkeys(names_in(number.text)))
            return Formula(_renamed(number.text, written))

        return formula

    def _value(self, value: object) -> object:
        return mapped(value, self._formula(self._made, self._local))

    def _member(self, member: Member) -> Member:
        match member:
            case Layer(_, construction):
                return msgspec.structs.replace(member, construction=self._construction(construction))
            case Chain(_, members):
                return msgspec.structs.replace(member, members=tuple(map(self._member, members)))
            case Nested(_, definition):
                inner = self._given.get(definition, {})
                self._made.update(dict.fromkeys(inner))
                passed = tuple((local, Constant(Formula(self._local[name]))) for name, local in inner.items())
                own = tuple((name, self._constant(value)) for name, value in member.arguments)
                return msgspec.structs.replace(member, arguments=(*own, *passed))
            case Weight(shape=shape, values=None) if member.init != "arange":
                return msgspec.structs.replace(member, shape=self._value(shape))
        return member

    def _construction(self, construction: Construction) -> Construction:
        return msgspec.structs.replace(
            construction,
            arguments=tuple(map(self._constant, construction.arguments)),
            keywords=tuple((name, self._constant(value)) for name, value in construction.keywords),
        )

    def _constant(self, argument: Argument) -> Argument:
        if isinstance(argument, Construction):
            return self._construction(argument)
        return Constant(self._value(argument.value)) if isinstance(argument, Constant) else argument

    def _call(self, call: Call) -> Call:
        return msgspec.structs.replace(
            call,
            arguments=tuple(map(self._passed, call.arguments)),
            keywords=tuple((name, self._passed(value)) for name, value in call.keywords),
        )

    def _passed(self, argument: Argument) -> Argument:
        match argument:
            case Constant(value):
                return Constant(mapped(value, self._formula(self._called, self._held)))
            case Sequence(items):
                return Sequence(tuple(map(self._passed, items)))
            case Call():
                return self._call(argument)
        return argument

    def _result(self, result: Result) -> Result:
        return msgspec.structs.replace(result, value=self._passed(result.value))


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda found: names[found[0]], text, flags=re.ASCII)


Resolved = Mapping[str, Mapping[str, Value]]
"""Inferred values of properties, by path of the node."""

_Probe = tuple[Sizes, Resolved]
"""Other sizes, and what is inferred with them."""


def with_formulas(graph: NodeGraph, resolved: Resolved) -> Resolved:
    """Return inferred values, those that are a multiple of a named size or of a calculation in the graph as such.

    A value that depends on sizes in another way stays a number.
    """
    usual = graph.named_sizes()
    bases = [name for name, value in usual.items() if not isinstance(value, Calculated)]
    # Multiples keep what divides a size; others tell 144*hidden from 576*(hidden//4).
    changes = [
        {name: usual[name] * 2 for name in bases},
        *({name: usual[name] * 3} for name in bases),
        *({name: usual[name] + 1} for name in bases),
    ]
    probes = [probe for change in changes if (probe := _probed(graph, change)) is not None]
    if not probes:
        return resolved
    texts = dict.fromkeys(usual)

    def note(number: Calculated) -> int:
        texts[number.text] = None
        return number

    for view in graph.graphs.values():
        for node in view.nodes.values():
            for value in node.properties.values():
                mapped(value, note)
    candidates = sorted(texts, key=len)
    return {path: _written(path, values, usual, probes, candidates) for path, values in resolved.items()}


def _probed(graph: NodeGraph, sizes: Mapping[str, int]) -> _Probe | None:
    try:
        other = NodeGraph.from_json(graph.to_json())
        with other.transaction():
            other.sizes.update(sizes)
        return other.named_sizes(), infer(other, read(other)).resolved
    except PnneError:
        return None  # these sizes do not fit each other, and tell nothing


def _written(
    path: str, values: Mapping[str, Value], usual: Sizes, probes: Several[_Probe], texts: Several[str]
) -> Mapping[str, Value]:
    found = dict(values)
    for name, value in values.items():
        seen = [(sizes, resolved.get(path, {}).get(name)) for sizes, resolved in probes]
        seen = [(sizes, number) for sizes, number in seen if isinstance(number, int)]
        if not isinstance(value, int) or all(number == value for _, number in seen):
            continue
        for text in texts:
            one = _number(text, usual)
            if one > 0 and value % one == 0:
                count = value // one
                if all(number == count * _number(text, sizes) for sizes, number in seen):
                    inner = text if text.isidentifier() else f"({text})"
                    found[name] = Calculated(value, text if count == 1 else f"{count}*{inner}")
                    break
    return found


def _number(text: str, sizes: Sizes) -> int:
    return calculated(text, sizes) or 0
