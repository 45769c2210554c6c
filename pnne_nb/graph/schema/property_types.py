"""Property types: the values that a property takes, declared once, checked in Python and in the browser.

Each type is a tagged value, and is sent to the browser as data. The same cases test both implementations
(``tests/cases/values``).
"""

from __future__ import annotations

import re
from numbers import Integral, Real
from typing import TypeAlias, TypeGuard

import msgspec

from pnne_nb.graph.schema.calculation import NO_SIZES, Sizes, calculated
from pnne_nb.graph.schema.values import (
    DTYPES,
    MAX_DEPTH,
    Calculated,
    TorchConstant,
    Value,
    decimals,
    from_json,
    is_array,
    to_json,
)


class _Type(msgspec.Struct, frozen=True, tag_field="type", rename="camel", omit_defaults=True):
    pass


class BoolType(_Type, frozen=True, tag="bool"):
    """``True`` or ``False``."""


class IntType(_Type, frozen=True, tag="int"):
    """A whole number of at most 64 bits in the closed range `minimum` to `maximum` (None: unbounded).

    A float without a fraction is one too: in the browser, 1.0 and 1 are the same. So is a calculation, ``"2*64"``
    or ``"4*hidden"``.
    """

    minimum: int | None = None
    maximum: int | None = None


class FloatType(_Type, frozen=True, tag="float"):
    """A real number in the closed range `minimum` to `maximum`; a whole number is converted."""

    minimum: float | None = None
    maximum: float | None = None


class NumberType(_Type, frozen=True, tag="number"):
    """An int, float or bool, kept as it is: torch promotes dtypes by it."""


class StringType(_Type, frozen=True, tag="string"):
    """Any text."""


class EnumType(_Type, frozen=True, tag="enum"):
    """One of a few strings."""

    choices: tuple[str, ...]


class DtypeType(_Type, frozen=True, tag="dtype"):
    """The name of a ``torch.dtype``, stored without the ``torch.`` prefix."""


class DeviceType(_Type, frozen=True, tag="device"):
    """A device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"`` and so on."""


class ShapeType(_Type, frozen=True, tag="shape"):
    """A tuple of sizes: whole numbers ≥ 0, or names that stand for symbolic sizes; None and -1 leave a size open too."""


class TupleType(_Type, frozen=True, tag="tuple"):
    """A tuple of `item` values, with `length` of them (None: any number).

    Attributes:
        scalar: Whether one bare `item` is accepted too, and kept bare, as torch does for ``kernel_size=3``.
    """

    item: PropertyType
    length: int | None = None
    scalar: bool = False


class ListType(_Type, frozen=True, tag="list"):
    """A list of `item` values; a tuple is converted."""

    item: PropertyType


class TensorType(_Type, frozen=True, tag="tensor"):
    """The numbers of a floating tensor: one, or a list of them, nested for more axes.

    Arrays and tensors are converted; all are kept as nested tuples.
    """


class OptionalType(_Type, frozen=True, tag="optional"):
    """None, or a value of `item`."""

    item: PropertyType


class UnionType(_Type, frozen=True, tag="union"):
    """A value of the first of `options` that accepts it."""

    options: tuple[PropertyType, ...]


class ConstantType(_Type, frozen=True, tag="constant"):
    """Any constant of ``graph.schema.values``."""


class NodeRefType(_Type, frozen=True, tag="nodeRef"):
    """The name of another node in the same graph."""


PropertyType: TypeAlias = (
    BoolType | IntType | FloatType | NumberType | StringType | EnumType | DtypeType | DeviceType
    | ShapeType | TupleType | ListType | TensorType | OptionalType | UnionType | ConstantType | NodeRefType
)  # fmt: skip

# Both are sent to the browser: regular expressions of JavaScript read them in the same way.
DEVICE = re.compile(r"(?:cpu|cuda|mps|xpu|meta)(?::[0-9]{1,3})?")
SIZE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LARGEST = 2**63


def check(kind: PropertyType, value: object, sizes: Sizes = NO_SIZES) -> Value:  # noqa: C901,PLR0911,PLR0912  one case for each type
    """Return `value` in the form in which the document stores it.

    Args:
        kind: The declared type.
        value: What a person or a program gave.
        sizes: Named sizes of the graph, which calculations may have.

    Raises:
        ValueError: If the value does not fit; the text completes the sentence "it must be …".
    """
    # The types that most properties have come first.
    match kind:
        case IntType(minimum, maximum):
            whole = value if type(value) is int else _whole(_calculated(value, sizes))
            if whole is not None and -_LARGEST <= whole < _LARGEST and _within(whole, minimum, maximum):
                return whole
        case TupleType(item, length, scalar):
            if isinstance(value, (tuple, list)):
                if length is None or len(value) == length:
                    return tuple(_each(kind, item, value, sizes))
            elif scalar:
                try:
                    return check(item, value, sizes)
                except ValueError:
                    pass
        case OptionalType(item):
            if value is None:
                return None
            try:
                return check(item, value, sizes)
            except ValueError as error:
                raise ValueError(describe(kind)) from error
        case UnionType(options):
            for option in options:
                try:
                    return check(option, value, sizes)
                except ValueError:
                    continue
        case BoolType():
            if isinstance(value, bool):
                return value
        case FloatType(minimum, maximum):
            value = _calculated(value, sizes)
            if isinstance(value, Calculated) and _within(value, minimum, maximum):
                return value
            if is_number(value):
                try:
                    number = _real(value)
                except OverflowError:
                    raise ValueError(describe(kind)) from None
                if _within(number, minimum, maximum):
                    return number
        case NumberType():
            if isinstance(value, bool):
                return value
            value = _calculated(value, sizes)
            if is_number(value):
                return _whole(value) if _is_whole(value) else _real(value)
        case StringType() | NodeRefType():
            if isinstance(value, str):
                return _constant(kind, value)
        case EnumType(choices):
            if isinstance(value, str) and value in choices:
                return choices[choices.index(value)]
        case DtypeType():
            name = value.name if isinstance(value, TorchConstant) else _spelled(value).removeprefix("torch.")
            if name in DTYPES:
                return name
        case DeviceType():
            if DEVICE.fullmatch(_spelled(value)):
                return _spelled(value)
        case ShapeType():
            if isinstance(value, (tuple, list)):
                shape = [size for axis, given in enumerate(value) if (size := _size(given, axis, sizes)) is not None]
                if len(shape) == len(value):
                    return tuple(shape)
        case ListType(item):
            if isinstance(value, (tuple, list)):
                return list(_each(kind, item, value, sizes))
        case TensorType():
            elements = _elements(decimals(value) if is_array(value) else value)
            if elements is not None:
                return elements[0]
        case ConstantType():
            return _constant(kind, value)
    if is_array(value):
        # The sizes of an array, or a count that came out of a computation.
        return check(kind, decimals(value), sizes)
    raise ValueError(describe(kind))


def admits(kind: PropertyType, choice: str) -> bool:
    """Return whether `choice` is one of the strings that `kind` lists, as in ``int | Literal["auto"]``."""
    match kind:
        case EnumType(choices):
            return choice in choices
        case OptionalType(item):
            return admits(item, choice)
        case UnionType(options):
            return any(admits(option, choice) for option in options)
    return False


def range_of(kind: PropertyType) -> tuple[float | None, float | None] | None:
    """Return the smallest and the largest number that `kind` takes, each None if unbounded; None if it takes no numbers.

    Of several options, the first one with numbers counts; of a tuple or list, its items.
    """
    match kind:
        case IntType(minimum, maximum) | FloatType(minimum, maximum):
            return minimum, maximum
        case NumberType():
            return None, None
        case TupleType(item) | ListType(item) | OptionalType(item):
            return range_of(item)
        case UnionType(options):
            return next((found for option in options if (found := range_of(option)) is not None), None)
        case _:
            return None


def holds_tensor(kind: PropertyType) -> bool:
    """Return whether `kind` takes the numbers of a tensor."""
    return isinstance(kind.item if isinstance(kind, OptionalType) else kind, TensorType)


def describe(kind: PropertyType) -> str:  # noqa: PLR0911  one case for each type
    """Return a description of the values that `kind` accepts, e.g. ``"a whole number ≥ 1"``."""
    match kind:
        case BoolType():
            return "True or False"
        case IntType(minimum, maximum):
            return f"a whole number{_range(minimum, maximum)}"
        case FloatType(minimum, maximum):
            return f"a number{_range(minimum, maximum)}"
        case NumberType():
            return "a number"
        case StringType():
            return "a text"
        case EnumType(choices):
            return f"{'one of ' if len(choices) > 1 else ''}{', '.join(repr(choice) for choice in choices)}"
        case DtypeType():
            return f"the name of a dtype such as {DTYPES[0]!r} or {DTYPES[4]!r}"
        case DeviceType():
            return "a device such as 'cpu' or 'cuda:0'"
        case ShapeType():
            return "a tuple of sizes such as ('N', 3, 32, 32), each a whole number ≥ 0 or a name"
        case TupleType(item, length, scalar):
            count = "a tuple, each item" if length is None else f"a tuple of {length} values, each"
            tuple_text = f"{count} {describe(item)}"
            return f"{describe(item)}, or {tuple_text}" if scalar else tuple_text
        case ListType(item):
            return f"a list, each item {describe(item)}"
        case TensorType():
            return "a number, or a list of numbers, nested for more axes"
        case OptionalType(item):
            return f"{describe(item)}, or None"
        case UnionType(options):
            return ", or ".join(describe(option) for option in options)
        case ConstantType():
            return "a constant (number, text, tuple, list, dict, slice or None)"
        case NodeRefType():
            return "the name of a node in the same graph"


def _each(
    kind: PropertyType, item: PropertyType, values: tuple[object, ...] | list[object], sizes: Sizes
) -> list[Value]:
    try:
        return [check(item, value, sizes) for value in values]
    except ValueError as error:
        raise ValueError(describe(kind)) from error


def _elements(value: object, depth: int = 0) -> tuple[Value, tuple[int, ...]] | None:
    """Return the numbers of a tensor as nested tuples, and its shape; None if `value` is no tensor."""
    if is_number(value):
        try:
            return float(value), ()
        except OverflowError:
            return None
    if not isinstance(value, (tuple, list)) or depth > MAX_DEPTH:
        return None
    rows = [_elements(row, depth + 1) for row in value]
    found = [row for row in rows if row is not None]
    if len(found) < len(rows) or len({shape for _, shape in found}) > 1:
        return None
    return tuple(row for row, _ in found), (len(found), *(found[0][1] if found else ()))


def _spelled(value: object) -> str:
    """Return the name of a dtype or device of torch or NumPy, which is the text of the object or the name of the class."""
    if isinstance(value, type):
        return value.__name__
    return "" if isinstance(value, Real) else str(value)


def _constant(kind: PropertyType, value: object) -> Value:
    try:
        # Through the JSON form: this makes a copy of plain types.
        return from_json(to_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(describe(kind)) from error


def _within(value: float, minimum: float | None, maximum: float | None) -> bool:
    return (minimum is None or value >= minimum) and (maximum is None or value <= maximum)


def _size(size: object, axis: int, sizes: Sizes) -> str | int | None:
    """Return a size as it is stored, None if it is none; one that is left open, as None or -1, gets a name."""
    whole = _whole(size)
    if size is None or whole == -1:
        return f"D{axis}" if axis else "N"
    if isinstance(size, str):
        whole = calculated(size, sizes)
        if whole is None:
            return size if SIZE_NAME.fullmatch(size) else None
    return whole if whole is not None and 0 <= whole < _LARGEST else None


def _calculated(value: object, sizes: Sizes) -> object:
    return calculated(value, sizes) if isinstance(value, str) else value


def is_number(value: object) -> TypeGuard[float]:
    """Return whether `value` is a real number, NumPy's included, but not a bool."""
    # Called for every value of a document: the check of the abstract class costs ten times that of the class.
    return type(value) in (int, float) or (isinstance(value, Real) and not isinstance(value, bool))


def _is_whole(value: object) -> TypeGuard[int]:
    """Return whether `value` is an integer, NumPy's included, but not a bool."""
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def _real(value: float) -> float:
    """Return a real number, or an element of an array, as a float."""
    return float(decimals(value) if is_array(value) else value)  # type: ignore[arg-type]  # one element: one number


def _whole(value: object) -> int | None:
    """Return `value` as an int if it is a whole number, else None."""
    if isinstance(value, Calculated):
        return value
    if _is_whole(value) or (is_number(value) and value % 1 == 0):
        return int(value)
    return None


def _range(minimum: float | None, maximum: float | None) -> str:
    match minimum, maximum:
        case None, None:
            return ""
        case _, None:
            return f" ≥ {_plain(minimum)}"
        case None, _:
            return f" ≤ {_plain(maximum)}"
        case _:
            return f" from {_plain(minimum)} to {_plain(maximum)}"


def _plain(bound: float | None) -> str:
    """Return a bound as the browser writes it: 0, not 0.0."""
    return f"{bound:g}" if isinstance(bound, float) else str(bound)
