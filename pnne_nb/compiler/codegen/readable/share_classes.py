"""Merges classes that differ only in sizes into one class with arguments: ``Block(64, 128)``."""

from __future__ import annotations

import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, final

import msgspec
from torch import nn

from pnne_nb.compiler.ir.program import Chain, Constant, Construction, Given, Layer, Member, Nested, Opaque, Program
from pnne_nb.compiler.ir.variables import is_identifier, unique
from pnne_nb.graph.schema.values import Calculated

Comments = Mapping[tuple[str, str], str]
"""What to say at the end of each node's line, by definition and node."""

_Slot = tuple[tuple[int, ...], int, str]
"""A constant of a class: which member, position among its arguments (-1 for a keyword), name."""


def unified(programs: Mapping[str, Program], comments: Comments) -> tuple[dict[str, Program], Comments]:
    """Return the merged classes, and the comments that apply to every class that was merged."""
    return _Merging(dict(programs), comments).run()


def stem(id: str) -> str:
    """Return the name of a definition without the number that makes it unique."""
    return re.sub(r"_?\d+$", "", id)


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
            ready = [id for id in pending if not any(each in pending for each in shown_in(self._programs[id].members))]
            groups: dict[str, list[str]] = defaultdict(list)
            for id in ready:
                self._programs[id] = self._renewed(self._programs[id])
                if self._programs[id].holds != "Module":  # whose constructor takes no sizes
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
        listed = [(name, _kind(row), usual[name]) for name, row in given.items()]
        parameters = tuple(sorted(listed, key=lambda parameter: parameter[2] is not None))
        places = {slot: Given(names[_exact(row)]) for slot, row in varying.items()}
        whole = {slot: places.get(slot, Constant(row[0])) for slot, row in rows.items()}
        first = self._programs[ids[0]]
        members = tuple(_with_constants(member, (index,), whole) for index, member in enumerate(first.members))
        self._programs[ids[0]] = msgspec.structs.replace(first, members=members, parameters=parameters)
        for index, id in enumerate(ids):
            own = {name: row[index] for name, row in given.items() if Constant(row[index]) != usual[name]}
            self._merged[id] = ids[0], {name: own[name] for name, *_ in parameters if name in own}
        for place in [place for place in self._comments if place[0] == ids[0]]:
            if len({self._comments.get((id, place[1])) for id in ids}) > 1:
                del self._comments[place]


def _skeleton(id: str, program: Program) -> str:
    """Return what classes that differ in sizes only have in common, as text."""
    members = []
    for path, member in _leaves(program.members):
        match member:
            case Layer(name, construction, device) if _is_plain(construction):
                members.append(f"{path} {name} {construction.target} {len(construction.arguments)} {device}")
            case Nested(name, definition, device):
                members.append(f"{path} {name} {definition} {device}")
            case _:
                members.append(f"{path} {member!r}")
    kept = program.entries, program.calls, program.results, program.holds, program.frozen, program.still
    return f"{stem(id)} {members} {kept}"


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
        return dict(inspect.signature(cls).parameters)
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
    if any(isinstance(value, Calculated) for value in row):
        return None  # a default cannot name other arguments
    exact, count = Counter(map(_exact, row)).most_common(1)[0]
    return next(Constant(value) for value in row if _exact(value) == exact) if 2 * count > len(row) else None


def _kind(row: list[object]) -> str:
    plain = [int(value) if isinstance(value, Calculated) else value for value in row]
    kinds = list(dict.fromkeys("None" if value is None else type(value).__name__ for value in plain))
    return " | ".join(sorted(kinds, key=lambda kind: kind == "None"))


def _exact(value: object) -> str:
    # 1, 1.0 and True are different constants.
    return repr(value)


def shown_in(members: tuple[Member, ...]) -> list[str]:
    """Return the definitions that members are made of, those in chains included."""
    found: list[str] = []
    for member in members:
        if isinstance(member, (Nested, Opaque)) and member.definition:
            found.append(member.definition)
        elif isinstance(member, Chain):
            found += shown_in(member.members)
    return found
