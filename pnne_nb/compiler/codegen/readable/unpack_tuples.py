"""Assigns the parts of a shape or tuple in one statement: ``b, t, c = x.shape``."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

import msgspec

from pnne_nb.compiler.ir.program import Argument, Call, Constant, Program, Ref, Sequence, references
from pnne_nb.compiler.ir.python_operators import GETATTR, GETITEM


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
