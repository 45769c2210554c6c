"""`Argument`: one argument of a torch call, between its signature and its spec."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import final

import msgspec

from pnne_nb.catalog.tables import overrides
from pnne_nb.graph.schema.property_types import (
    BoolType,
    ConstantType,
    EnumType,
    FloatType,
    IntType,
    ListType,
    NumberType,
    OptionalType,
    PropertyType,
    StringType,
    TensorType,
    TupleType,
    UnionType,
    check,
)
from pnne_nb.graph.schema.spec import REQUIRED, Port, PortKind, Property, Required
from pnne_nb.graph.schema.values import Value


@final
class Argument(msgspec.Struct, frozen=True):
    """One argument of a signature.

    Attributes:
        name: As it is passed by keyword.
        kind: What can be wired, or None if it can only be typed in.
        type: What can be typed in, or None if it can only be wired.
        default: Its default, or `REQUIRED`.
        variadic: Whether it is a list of tensors.
        spread: Whether it is a ``*name`` parameter.
        positional: Whether it may be passed by position.
    """

    name: str
    kind: PortKind | None = None
    type: PropertyType | None = None
    default: Value | Required = REQUIRED
    variadic: bool = False
    spread: bool = False
    positional: bool = True


def port(type_name: str, argument: Argument, doc: str) -> Port:
    """Return the input port of an argument that an edge can feed."""
    return Port(
        name=argument.name,
        kind=argument.kind or "value",
        optional=not isinstance(argument.default, Required),
        variadic=argument.variadic,
        dtypes=overrides.lookup(overrides.DTYPES, type_name, argument.name) or "any",
        doc=doc,
    )


def property_of(type_name: str, argument: Argument, role: overrides.Role, doc: str) -> Property:
    """Return the property of an argument of torch, with the ranges and choices of `overrides`."""
    assert argument.type is not None, "a caller asks only for arguments that can be typed in"
    return typed(argument, refine(type_name, argument.name, argument.type), role, doc)


def typed(argument: Argument, kind: PropertyType, role: overrides.Role, doc: str) -> Property:
    """Return the property of an argument with values of `kind`.

    Raises:
        ValueError: If the argument's own default is no such value; the text completes "it must be …".
    """
    default = argument.default
    if default is None and not _takes_none(kind):
        kind = OptionalType(kind)
    if not isinstance(default, Required):
        default = check(kind, default)
    return Property(name=argument.name, type=kind, default=default, role=role, doc=doc)


def typed_in(argument: Argument) -> Argument:
    """Return an argument of a constructor, which no edge can feed: a tensor is given by its numbers."""
    if argument.kind is None or argument.type is not None:
        return argument
    return msgspec.structs.replace(argument, kind=None, type=None if argument.variadic else TensorType())


def refine(type_name: str, name: str, kind: PropertyType) -> PropertyType:
    """Return `kind` with facts that signatures lack: choices, ranges, and lengths of tuples."""
    declared = overrides.lookup(overrides.TYPES, type_name, name)
    if declared is not None:
        return declared
    bounds = overrides.lookup(overrides.RANGES, type_name, name) or (None, None)
    choices = overrides.lookup(overrides.CHOICES, type_name, name)
    return _narrow(kind, bounds, choices, _rank(type_name) if name in overrides.PER_AXIS else None)


def _narrow(
    kind: PropertyType, bounds: tuple[float | None, float | None], choices: tuple[str, ...] | None, rank: int | None
) -> PropertyType:
    low, high = bounds
    match kind:
        case IntType():
            return IntType(None if low is None else int(low), None if high is None else int(high))
        case FloatType():
            return FloatType(low, high)
        case NumberType() if low is not None or high is not None:
            return FloatType(low, high)
        case StringType() if choices:
            return EnumType(choices)
        case TupleType(item, length, scalar):
            return TupleType(_narrow(item, bounds, choices, None), length or rank, scalar)
        case ListType(item):
            # torch takes a tuple wherever it takes a list, and a tuple is the simpler value.
            return TupleType(_narrow(item, bounds, choices, None))
        case OptionalType(item):
            return OptionalType(_narrow(item, bounds, choices, rank))
        case UnionType(options):
            return UnionType(tuple(_narrow(option, bounds, choices, rank) for option in options))
    return kind


def union(options: Iterable[PropertyType]) -> PropertyType:
    """Return the simplest type that accepts all values of `options`."""
    distinct = list(dict.fromkeys(options))
    optional = any(isinstance(option, OptionalType) for option in distinct)
    distinct = list(dict.fromkeys(o.item if isinstance(o, OptionalType) else o for o in distinct))
    if any(isinstance(option, ConstantType) for option in distinct):
        return ConstantType()
    if NumberType() in distinct or (IntType() in distinct and FloatType() in distinct):
        distinct = [
            NumberType(),
            *(o for o in distinct if not isinstance(o, (NumberType, IntType, FloatType, BoolType))),
        ]
    for sequence in [o for o in distinct if isinstance(o, (TupleType, ListType))]:
        bare = sequence.item.item if isinstance(sequence.item, OptionalType) else sequence.item
        if sequence in distinct and bare in distinct:
            length = sequence.length if isinstance(sequence, TupleType) else None
            distinct = [o for o in distinct if o != bare and not _same_sequence(o, sequence)]
            distinct.insert(0, TupleType(sequence.item, length, scalar=True))
        elif isinstance(sequence, ListType) and any(_same_sequence(o, sequence) for o in distinct if o != sequence):
            distinct.remove(sequence)
    result = distinct[0] if len(distinct) == 1 else UnionType(tuple(distinct))
    return OptionalType(result) if optional else result


def _same_sequence(kind: PropertyType, sequence: TupleType | ListType) -> bool:
    return isinstance(kind, (TupleType, ListType)) and kind.item == sequence.item


def _takes_none(kind: PropertyType) -> bool:
    match kind:
        case OptionalType() | ConstantType():
            return True
        case UnionType(options):
            return any(_takes_none(option) for option in options)
    return False


def _rank(type_name: str) -> int | None:
    match = re.search(r"(\d)d$", type_name)
    if match:
        return int(match[1])
    return 2 if fnmatch.fnmatch(type_name, "*[Ff]old") else None
