"""Makes a lowered document read as a person would write it: for the source that is shown, not for the one that runs.

What runs has one line for each node and one class for each nested graph, so that errors, hooks and the debugger find
them. Here sizes stand where they are used (``x.view(b, x.shape[1], -1)``), chains become ``nn.Sequential``, and
classes that differ in sizes only become one with arguments. The module is the same: same keys, same results.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Literal, final

import msgspec
from torch import nn

from pnne_nb.compiler.naming import is_identifier, unique
from pnne_nb.compiler.operators import GETATTR, GETITEM, SETITEM
from pnne_nb.compiler.program import (
    Argument,
    Call,
    Chain,
    Constant,
    Construction,
    Given,
    Layer,
    Member,
    Nested,
    Opaque,
    Program,
    Ref,
    Sequence,
    Unit,
    Weight,
)
from pnne_nb.compiler.variables import references

Comments = Mapping[tuple[str, str], str]


def tidied(unit: Unit, comments: Comments) -> tuple[Unit, Comments]:
    """Return the document as a person would write it, and what still can be said at the end of its lines."""
    programs = {id: _inlined(program) for id, program in unit.programs.items()}
    chains = {
        id for id, program in programs.items() if id and _is_chain(program) and not _holds_opaque(program, programs)
    }
    users = Counter(member.definition for program in programs.values() for member in _nested(program.members))
    # What a person has named and uses several times stays a class.
    named = {id for id in chains if users[id] > 1 and not id.startswith("Sequential")}
    programs = {id: _chained(program, programs, chains - named) for id, program in programs.items()}
    programs, comments = _Merging({id: programs[id] for id in programs if id not in chains - named}, comments).run()
    programs = {
        id: msgspec.structs.replace(each, form="chain" if id in named else _form(each, programs))
        for id, each in programs.items()
    }
    used = {member.definition for program in programs.values() for member in _nested(program.members)}
    programs = {id: program for id, program in programs.items() if not id or id in used}
    return msgspec.structs.replace(unit, programs=programs), comments


# Sizes where they are used


def _inlined(program: Program) -> Program:
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
        is_value = _is_value(call, values)
        made = msgspec.structs.replace(
            call,
            arguments=tuple(map(place, call.arguments)),
            keywords=tuple((name, place(value)) for name, value in call.keywords),
        )
        ref = Ref(call.node, "output")
        if is_value:
            values.add(call.node)
        if is_value and (uses[ref] == 1 or call.target == GETATTR):
            pending[ref] = made
            continue
        if not is_value:
            # It may change what a size is read from.
            calls += pending.values()
            pending.clear()
        calls.append(made)
    results = tuple(msgspec.structs.replace(result, value=place(result.value)) for result in program.results)
    return msgspec.structs.replace(program, calls=(*calls, *pending.values()), results=results)


def _is_value(call: Call, values: set[str]) -> bool:
    """Whether a call works on sizes and other numbers, which cost nothing and hold no memory."""
    if call.keywords or not call.single or len(call.results) != 1:
        return False
    if call.kind == "method":
        return call.target == "size" and len(call.arguments) == 2
    if call.kind != "function" or call.target == SETITEM:
        return False
    if call.target == GETITEM:
        return isinstance(call.arguments[0], Ref) and call.arguments[0].node in values
    if call.target == GETATTR:
        name = call.arguments[1]
        return isinstance(name, Constant) and name.value in ("shape", "dtype", "device")
    return call.target in ("tuple", "list", "slice", "len") or call.target.startswith(("operator.", "math."))


# Chains


def _is_chain(program: Program) -> bool:
    """Whether ``nn.Sequential`` does the same: each member is called once, in order, on what the last has given."""
    if len(program.entries) != 1 or len(program.results) != 1 or not program.members:
        return False
    if [member.name for member in program.members] != [str(index) for index in range(len(program.calls))]:
        return False
    before = Ref(program.entries[0].node, "output")
    for call, member in zip(program.calls, program.members, strict=True):
        if not _is_step(call) or call.target != member.name or call.arguments != (before,):
            return False
        before = _result(call)
    return program.results[0].value == before and not program.parameters


def _holds_opaque(program: Program, programs: Mapping[str, Program]) -> bool:
    return any(isinstance(member, Opaque) for member in program.members) or any(
        _holds_opaque(programs[member.definition], programs) for member in _nested(program.members)
    )


def _chained(program: Program, programs: Mapping[str, Program], chains: set[str]) -> Program:
    def chained(member: Member) -> Member:
        if isinstance(member, Nested) and member.definition in chains:
            inner = programs[member.definition].members
            return Chain(member.name, tuple(map(chained, inner)), member.device)
        return member

    return msgspec.structs.replace(program, members=tuple(map(chained, program.members)))


def _form(program: Program, programs: Mapping[str, Program]) -> Literal["", "list", "loop"]:
    names = [member.name for member in program.members if not isinstance(member, Weight)]
    if not program.definition or not names or names != [str(index) for index in range(len(names))]:
        return ""
    if program.parameters or _holds_opaque(program, programs):
        return ""
    # A list may have tensors of its own, as that of a parametrization has the one that it is made from.
    return "loop" if 1 < len(names) == len(program.members) and _repeats(program) else "list"


def _repeats(program: Program) -> bool:
    """Whether each member gets what the first got, but the last result in place of one argument."""
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
    return call.kind == "member" and call.single and not call.keywords and not call.again


def _result(call: Call) -> Ref:
    port = call.results[0]
    return Ref(call.node, port if isinstance(port, str) else "")


def _nested(members: tuple[Member, ...]) -> list[Nested]:
    found: list[Nested] = []
    for member in members:
        if isinstance(member, Nested):
            found.append(member)
        elif isinstance(member, Chain):
            found += _nested(member.members)
    return found


# Classes that differ in sizes only

_Slot = tuple[tuple[int, ...], int, str]
"""A constant of a class: which member, position among its arguments (-1 for a keyword), name."""


@final
class _Merging:
    def __init__(self, programs: dict[str, Program], comments: Comments) -> None:
        self._programs = programs
        self._comments = dict(comments)
        self._merged: dict[str, tuple[str, dict[str, object]]] = {}  # definition -> what it became, and its arguments

    def run(self) -> tuple[dict[str, Program], Comments]:
        # What is inside comes first, so that blocks of merged blocks can be merged too.
        pending = [id for id in self._programs if id]
        while pending:
            ready = [
                id for id in pending if not any(n.definition in pending for n in _nested(self._programs[id].members))
            ]
            groups: dict[str, list[str]] = defaultdict(list)
            for id in ready:
                self._programs[id] = self._renewed(self._programs[id])
                groups[_skeleton(id, self._programs[id])].append(id)
            for ids in groups.values():
                if len(ids) > 1:
                    self._merge(ids)
            pending = [id for id in pending if id not in ready]
        self._programs[""] = self._renewed(self._programs[""])
        kept = {id: program for id, program in self._programs.items() if self._merged.get(id, (id,))[0] == id}
        return kept, self._comments

    def _renewed(self, program: Program) -> Program:
        """Have a program name the merged classes."""

        def renewed(member: Member) -> Member:
            if isinstance(member, Chain):
                return msgspec.structs.replace(member, members=tuple(map(renewed, member.members)))
            if not isinstance(member, Nested) or member.definition not in self._merged:
                return member
            definition, given = self._merged[member.definition]
            arguments = tuple((name, Constant(value)) for name, value in given.items())
            return msgspec.structs.replace(member, definition=definition, arguments=arguments)

        return msgspec.structs.replace(program, members=tuple(map(renewed, program.members)))

    def _merge(self, ids: list[str]) -> None:
        tables = [_constants(self._programs[id]) for id in ids]
        slots = list(dict.fromkeys(slot for table in tables for slot in table))
        leaves = dict(_leaves(self._programs[ids[0]].members))
        rows: dict[_Slot, list[object]] = {}
        for slot in slots:
            defaults = _defaults(leaves[slot[0]])
            if slot[2] not in defaults and any(slot not in table for table in tables):
                return
            rows[slot] = [table.get(slot, defaults.get(slot[2])) for table in tables]
        varying = {slot: row for slot, row in rows.items() if len({_exact(value) for value in row}) > 1}
        names: dict[str, str] = {}  # equal rows are one argument
        for slot, row in varying.items():
            if _exact(row) not in names:
                member = self._programs[ids[0]].members[slot[0][0]].name
                full = f"{member}_{slot[2]}" if is_identifier(member) else slot[2]
                name = slot[2] if slot[2] not in names.values() else unique(full, set(names.values()))
                names[_exact(row)] = name
        given: dict[str, list[object]] = {names[_exact(row)]: row for row in varying.values()}
        usual = {name: _usual(row) for name, row in given.items()}
        parameters = tuple(
            sorted(
                ((name, _kind(given[name]), usual[name]) for name in given),
                key=lambda parameter: parameter[2] is not None,
            )
        )
        places = {slot: Given(names[_exact(row)]) for slot, row in varying.items()}
        whole = {slot: places.get(slot, Constant(row[0])) for slot, row in rows.items()}
        first = self._programs[ids[0]]
        members = tuple(_with_constants(member, (index,), whole) for index, member in enumerate(first.members))
        self._programs[ids[0]] = msgspec.structs.replace(first, members=members, parameters=parameters)
        for index, id in enumerate(ids):
            own = {name: row[index] for name, row in given.items() if Constant(row[index]) != usual[name]}
            self._merged[id] = ids[0], {name: own[name] for name, *_ in parameters if name in own}
        self._keep_comments(ids)

    def _keep_comments(self, ids: list[str]) -> None:
        for place in [place for place in self._comments if place[0] == ids[0]]:
            if len({self._comments.get((id, place[1])) for id in ids}) > 1:
                del self._comments[place]


def _skeleton(id: str, program: Program) -> str:
    """Return what classes that differ in sizes only have in common, as text."""
    stem = re.sub(r"_?\d+$", "", id)
    members = []
    for path, member in _leaves(program.members):
        match member:
            case Layer(name, construction, device) if _is_plain(construction):
                members.append(f"{path} {name} {construction.target} {len(construction.arguments)} {device}")
            case Nested(name, definition, device):
                members.append(f"{path} {name} {definition} {device}")
            case _:
                members.append(f"{path} {member!r}")
    return f"{stem} {members} {program.entries} {program.calls} {program.results}"


def _leaves(members: tuple[Member, ...], above: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Member]]:
    for number, member in enumerate(members):
        if isinstance(member, Chain):
            yield from _leaves(member.members, (*above, number))
        else:
            yield (*above, number), member


def _is_plain(construction: Construction) -> bool:
    values = (*construction.arguments, *(value for _, value in construction.keywords))
    return construction.target.startswith("torch.nn.") and all(isinstance(value, Constant) for value in values)


def _constants(program: Program) -> dict[_Slot, object]:
    found: dict[_Slot, object] = {}
    for number, member in _leaves(program.members):
        if isinstance(member, Layer) and _is_plain(member.construction):
            names = list(_signature(member.construction.target))
            for position, value in enumerate(member.construction.arguments):
                assert isinstance(value, Constant)
                found[number, position, names[position] if position < len(names) else "size"] = value.value
            for name, value in member.construction.keywords:
                assert isinstance(value, Constant)
                found[number, -1, name] = value.value
        elif isinstance(member, Nested):
            for name, value in member.arguments:
                assert isinstance(value, Constant)
                found[number, -1, name] = value.value
    return found


def _defaults(member: Member) -> dict[str, object]:
    """Return what the arguments of a member are where they are not written."""
    if isinstance(member, Layer):
        signature = _signature(member.construction.target)
        return {name: p.default for name, p in signature.items() if p.default is not inspect.Parameter.empty}
    return {}


def _signature(target: str) -> dict[str, inspect.Parameter]:
    cls: Any = getattr(nn, target.rpartition(".")[2], None)
    try:
        return dict(list(inspect.signature(cls).parameters.items()))
    except (TypeError, ValueError):
        return {}


def _with_constants(member: Member, number: tuple[int, ...], constants: Mapping[_Slot, Constant | Given]) -> Member:
    if isinstance(member, Chain):
        inner = (_with_constants(each, (*number, index), constants) for index, each in enumerate(member.members))
        return msgspec.structs.replace(member, members=tuple(inner))
    own = {(position, name): value for (index, position, name), value in constants.items() if index == number}
    keywords = tuple((name, value) for (position, name), value in own.items() if position < 0)
    match member:
        case Layer(name, construction, device) if _is_plain(construction):
            arguments = tuple(value for (position, _), value in own.items() if position >= 0)
            kept = tuple((key, value) for key, value in keywords if not _is_default(member, key, value))
            return Layer(name, Construction(construction.target, arguments, kept), device)
        case Nested():
            return msgspec.structs.replace(member, arguments=keywords)
    return member


def _is_default(member: Member, name: str, value: Constant | Given) -> bool:
    return isinstance(value, Constant) and _exact(_defaults(member).get(name)) == _exact(value.value)


def _usual(row: list[object]) -> Constant | None:
    """Return the value that most classes have, if it is worth being a default."""
    exact, count = Counter(map(_exact, row)).most_common(1)[0]
    return next(Constant(value) for value in row if _exact(value) == exact) if 2 * count > len(row) else None


def _kind(row: list[object]) -> str:
    kinds = list(dict.fromkeys("None" if value is None else type(value).__name__ for value in row))
    return " | ".join(sorted(kinds, key=lambda kind: kind == "None"))


def _exact(value: object) -> str:
    # 1, 1.0 and True are different constants.
    return repr(value)
