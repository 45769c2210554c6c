"""Rewrites a program into its readable form, which `to_source` returns; `compile` runs the program as it was lowered.

The form that runs has one line for each node and one class for each nested graph, so that errors, hooks and the
debugger find them. In the readable form sizes are inlined (``x.view(b, x.shape[1], -1)``), calls are nested, chains
become ``nn.Sequential``, and classes that differ only in sizes become one class with arguments. Both give equal
modules: same keys, same results. `compiler.codegen.writer` says why there are two forms and what proves them equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Literal, NamedTuple

import msgspec

from pnne_nb.compiler.codegen.readable.nest_calls import composed
from pnne_nb.compiler.codegen.readable.share_classes import Comments, shown_in, stem, unified
from pnne_nb.compiler.ir.call_properties import gives_number
from pnne_nb.compiler.ir.program import (
    Argument,
    Call,
    Chain,
    Constant,
    Member,
    Nested,
    Opaque,
    Program,
    Ref,
    Sequence,
    Unit,
    Weight,
    references,
)
from pnne_nb.compiler.ir.python_operators import GETATTR, GETITEM
from pnne_nb.compiler.shapes.infer import Shapes, TensorSpec
from pnne_nb.graph.document import NodeGraph


def tidied(unit: Unit, comments: Comments, parts: Mapping[str, PartCounts]) -> tuple[Unit, Comments]:
    """Return a program in its readable form, and the comments that still apply."""
    programs = {id: _inlined(program) for id, program in unit.programs.items()}
    chains = {
        id for id, program in programs.items() if id and is_chain(program) and not _holds_opaque(program, programs)
    }
    users = Counter(stem(id) for program in programs.values() for id in shown_in(program.members))
    # What a person has named and uses several times, or with several sizes, stays a class.
    named = {id for id in chains if users[stem(id)] > 1 and stem(id) != "Sequential"}
    programs = {id: _chained(program, programs, chains - named) for id, program in programs.items()}
    programs, comments = unified({id: programs[id] for id in programs if id not in chains - named}, comments)
    programs = {
        id: msgspec.structs.replace(each, form="chain" if id in named else _form(each, programs))
        for id, each in programs.items()
    }
    used = {id for program in programs.values() for id in shown_in(program.members)}
    programs = {
        id: program if program.form in ("chain", "loop") else composed(unpacked(program, parts.get(id, NO_PARTS)))
        for id, program in programs.items()
        if not id or id in used
    }
    return msgspec.structs.replace(unit, programs=programs), comments


def _inlined(program: Program) -> Program:
    """Return a program with unnamed calls on sizes and other numbers inlined where they are used once."""
    uses = Counter(ref for call in program.calls for ref in references(call))
    uses.update(result.value for result in program.results if isinstance(result.value, Ref))
    calls: list[Call] = []
    pending: dict[Ref, Call] = {}
    values: set[str] = set()

    def place(argument: Argument) -> Argument:
        match argument:
            case Ref() if argument in pending:
                uses[argument] -= 1
                return pending[argument] if uses[argument] else pending.pop(argument)
            case Sequence(items):
                return Sequence(tuple(map(place, items)))
        return argument

    for call in program.calls:
        # Sizes and other numbers cost nothing and hold no memory.
        is_value = call.single and len(call.results) == 1 and gives_number(call, values)
        made = msgspec.structs.replace(
            call,
            arguments=tuple(map(place, call.arguments)),
            keywords=tuple((name, place(value)) for name, value in call.keywords),
        )
        ref = Ref(call.node, "output")
        if is_value:
            values.add(call.node)
        if is_value and not call.variables and (uses[ref] == 1 or call.target == GETATTR):
            pending[ref] = made
            continue
        if not is_value:
            # It may change what a size is read from.
            calls += pending.values()
            pending.clear()
        calls.append(made)
    results = tuple(msgspec.structs.replace(result, value=place(result.value)) for result in program.results)
    return msgspec.structs.replace(program, calls=(*calls, *pending.values()), results=results)


def is_chain(program: Program) -> bool:
    """Return whether ``nn.Sequential`` does the same: each member is called once, in order, on the last result."""
    if len(program.entries) != 1 or len(program.results) != 1 or not program.members:
        return False
    if [member.name for member in program.members] != [str(index) for index in range(len(program.calls))]:
        return False
    before = Ref(program.entries[0].node, "output")
    for call, member in zip(program.calls, program.members, strict=True):
        if not _is_step(call) or call.target != member.name or call.arguments != (before,):
            return False
        before = _result(call)
    return program.results[0].value == before and not (program.parameters or program.frozen or program.still)


def _holds_opaque(program: Program, programs: Mapping[str, Program]) -> bool:
    return any(isinstance(member, Opaque) for member in program.members) or any(
        _holds_opaque(programs[id], programs) for id in shown_in(program.members)
    )


def _chained(program: Program, programs: Mapping[str, Program], chains: set[str]) -> Program:
    def chained(member: Member) -> Member:
        if isinstance(member, Nested) and member.definition in chains:
            inner = programs[member.definition].members
            return Chain(member.name, tuple(map(chained, inner)), member.device)
        return member

    return msgspec.structs.replace(program, members=tuple(map(chained, program.members)))


def _form(program: Program, programs: Mapping[str, Program]) -> Literal["", "chain", "list", "loop"]:
    if program.holds in ("Module", "ModuleDict"):
        return ""
    names = [member.name for member in program.members if not isinstance(member, Weight)]
    if not names or names != [str(index) for index in range(len(names))]:
        return ""
    if program.frozen or program.still:
        return ""
    if not program.definition and (program.ties or [each.node for each in program.entries] != ["input"]):
        return ""  # nn.Sequential calls its argument so
    if not program.definition or _holds_opaque(program, programs):
        return "chain" if is_chain(program) else ""
    if program.parameters:
        return ""
    if program.holds == "Sequential":
        return "chain"
    # A list may have tensors of its own, as that of a parametrization has the one that it is made from.
    return "loop" if 1 < len(names) == len(program.members) and _repeats(program) else "list"


def _repeats(program: Program) -> bool:
    """Return whether each member gets what the first got, but the last result in place of one argument."""
    if [call.target for call in program.calls] != [member.name for member in program.members]:
        return False
    if len(program.results) != 1 or not all(_is_step(call) for call in program.calls):
        return False
    first, *rest = program.calls
    changing = next((index for index, value in enumerate(rest[0].arguments) if value == _result(first)), None)
    if changing is None or len(first.arguments) <= changing or not isinstance(first.arguments[changing], Ref):
        return False
    before = first
    for call in rest:
        expected = list(first.arguments)
        expected[changing] = _result(before)
        if list(call.arguments) != expected or first.arguments.count(first.arguments[changing]) > 1:
            return False
        before = call
    return program.results[0].value == _result(before)


def _is_step(call: Call) -> bool:
    plain = call.kind == "member" and call.single and not call.keywords
    return plain and not call.again and not call.inside


def _result(call: Call) -> Ref:
    port = call.results[0]
    return Ref(call.node, port if isinstance(port, str) else "")


def comments(graph: NodeGraph, shapes: Shapes) -> Comments:
    """Return the comment of each node's line: its shapes, if every use has the same."""
    found: dict[tuple[str, str], set[str]] = {}
    by_node: dict[str, list[TensorSpec]] = {}
    for path, spec in shapes.tensors.items():
        by_node.setdefault(path.rpartition(".")[0], []).append(spec)
    for path, specs in by_node.items():
        definition, name = _written_at(graph, path)
        found.setdefault((definition, name), set()).add(", ".join(map(str, specs)))
    return {place: next(iter(texts)) for place, texts in found.items() if len(texts) == 1}


def parts_of(graph: NodeGraph, shapes: Shapes) -> dict[str, PartCounts]:
    """Return how many parts values have, if every use has the same number; otherwise 0."""
    found: dict[str, PartCounts] = {}
    for path, count in (*((path, len(spec.shape)) for path, spec in shapes.tensors.items()), *shapes.items.items()):
        node, _, port = path.rpartition(".")
        definition, name = _written_at(graph, node)
        parts = found.setdefault(definition, PartCounts({}, {}))
        counts = parts.sizes if path in shapes.tensors else parts.items
        counts[Ref(name, port)] = count if counts.get(Ref(name, port), count) == count else 0
    return found


def _written_at(graph: NodeGraph, path: str) -> tuple[str, str]:
    """Return the definition that a node is written in, and its name there."""
    prefix, _, name = path.rpartition(".")
    return (graph[prefix].definition if prefix else "") or "", name


class PartCounts(NamedTuple):
    """Known numbers of parts of values.

    Attributes:
        sizes: Of tensors.
        items: Of tuples and lists; a tensor is not taken apart, for each part of it is an operation.
    """

    sizes: dict[Ref, int]
    items: dict[Ref, int]


NO_PARTS = PartCounts({}, {})

_AXES = {2: ("n", "d"), 3: ("b", "t", "c"), 4: ("n", "c", "h", "w"), 5: ("n", "c", "d", "h", "w")}
"""What people call the sizes of a tensor."""


def unpacked(program: Program, parts: PartCounts) -> Program:
    """Return a program in which consecutive reads of sizes or items become one unpacking."""
    calls: list[Call] = []
    renamed: dict[Ref, Ref] = {}
    for whole, group in groupby(program.calls, _source):
        items = list(group)
        place = _place(whole, calls)
        names = _names(whole, items, parts, program) if whole is not None and place is not None else ()
        if not names or place is None:
            calls += items
            continue
        if isinstance(whole, Call):
            calls.append(msgspec.structs.replace(whole, node=items[0].node, inside=items[0].inside))
        said = tuple((names[_index(item)], name) for item in items for _, name in item.variables)
        made = calls[place] = msgspec.structs.replace(calls[place], results=names, single=False, variables=said)
        renamed.update({Ref(item.node, "output"): Ref(made.node, names[_index(item)]) for item in items})
    if not renamed:
        return program
    return msgspec.structs.replace(
        program,
        calls=tuple(_with_names(call, renamed) for call in calls),
        results=tuple(msgspec.structs.replace(each, value=_named(each.value, renamed)) for each in program.results),
    )


def _source(call: Call) -> Argument | None:
    """Return what a call takes an item of: the sizes of a tensor, or a tuple."""
    if call.kind != "function" or call.target != GETITEM or len(call.arguments) != 2:
        return None
    whole, index = call.arguments
    if not isinstance(index, Constant) or type(index.value) is not int:
        return None
    is_shape = isinstance(whole, Call) and whole.target == GETATTR and whole.arguments[1] == Constant("shape")
    return whole if is_shape or isinstance(whole, Ref) else None


def _place(whole: Argument | None, calls: list[Call]) -> int | None:
    """Return where among the calls the one is that gives the whole: at their end, if it has no line of its own yet."""
    if not isinstance(whole, Ref):
        return len(calls)
    return next((n for n, call in enumerate(calls) if call.node == whole.node and call.results == (whole.port,)), None)


def _names(whole: Argument, items: list[Call], parts: PartCounts, program: Program) -> tuple[str, ...]:
    """Return a name for every part, empty for an unused one; no names if the parts are not unpacked."""
    of, counts = (whole.arguments[0], parts.sizes) if isinstance(whole, Call) else (whole, parts.items)
    count = counts.get(of, 0) if isinstance(of, Ref) else 0
    indices = [_index(item) for item in items]
    if len(items) < 2 or len({index % count for index in indices if -count <= index < count}) < len(items):
        return ()
    if isinstance(whole, Call):
        usual = _AXES.get(count, ())
    else:
        reads = sum(ref == whole for call in program.calls for ref in references(call))
        if reads != len(items) or any(result.value == whole for result in program.results):
            return ()
        usual = tuple(f"{whole.node}{number}" for number in range(count)) if isinstance(whole, Ref) else ()
    if not usual:
        return ()
    own = {index % count: item.node for index, item in zip(indices, items, strict=True)}
    return tuple(
        "" if place not in own else usual[place] if own[place].startswith("getitem") else own[place]
        for place in range(count)
    )


def _index(item: Call) -> int:
    index = item.arguments[1]
    assert isinstance(index, Constant), "_source lets nothing else through"
    assert isinstance(index.value, int)
    return index.value


def _with_names(call: Call, renamed: Mapping[Ref, Ref]) -> Call:
    return msgspec.structs.replace(
        call,
        arguments=tuple(_named(argument, renamed) for argument in call.arguments),
        keywords=tuple((name, _named(value, renamed)) for name, value in call.keywords),
    )


def _named(argument: Argument, renamed: Mapping[Ref, Ref]) -> Argument:
    match argument:
        case Ref():
            return renamed.get(argument, argument)
        case Sequence(items):
            return Sequence(tuple(_named(item, renamed) for item in items))
        case Call():
            return _with_names(argument, renamed)
    return argument
