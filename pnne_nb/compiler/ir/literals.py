"""Writes constants as Python source: a closed set of types.

Nothing here calls ``repr`` on an object of an unknown class: every type is compared exactly, and anything else is
refused. What `emit` returns is therefore always a literal, or a call of ``float``, ``complex`` or ``slice`` on
literals, or an attribute of ``torch`` from a closed list.
"""

from __future__ import annotations

import math
from types import EllipsisType
from typing import final

import msgspec

from pnne_nb.errors import CompileError
from pnne_nb.graph.schema.values import MAX_DEPTH, Calculated, TorchConstant

_DECIMAL_LIMIT = 10**1000
"""Larger ints are written in hexadecimal: Python refuses to read very long decimals."""


@final
class TensorLiteral(msgspec.Struct, frozen=True):
    """A tensor that is passed to a constructor.

    Attributes:
        elements: A number, or nested tuples of numbers.
    """

    elements: object


@final
class Formula(msgspec.Struct, frozen=True):
    """A calculation of variables with whole numbers, as `graph.schema.calculation` reads them."""

    text: str


_EXACT = frozenset(
    {type(None), bool, int, float, complex, str, tuple, list, dict, slice, EllipsisType, TorchConstant, TensorLiteral}
    | {Calculated, Formula}
)
"""Types of constants; a subclass may have a ``repr`` of its own."""


def emit(value: object, depth: int = 0) -> str:  # noqa: PLR0911  one case for each type
    """Return `value` as a Python expression that evaluates to an equal value of the same type.

    Raises:
        CompileError: If `value` is not one of these constants, or is nested too deep.
    """
    if depth > MAX_DEPTH:
        raise CompileError(f"A constant is nested more than {MAX_DEPTH} deep and cannot be written as source.")
    if type(value) not in _EXACT:
        raise CompileError(
            f"A {type(value).__name__} cannot be written as source; use a number, text, tuple, list, dict, slice or dtype."
        )
    match value:
        case str():
            return _quoted(value)
        case EllipsisType():
            return "..."
        case Formula(text):
            return text
        case int() if not isinstance(value, bool):
            return str(int(value)) if abs(value) < _DECIMAL_LIMIT else hex(value)
        case float():
            return repr(value).replace("e+", "e") if math.isfinite(value) else f'float("{value}")'
        case complex():
            return f"complex({emit(value.real)}, {emit(value.imag)})"
        case tuple():
            items = ", ".join(emit(item, depth + 1) for item in value)
            return f"({items},)" if len(value) == 1 else f"({items})"
        case list():
            return f"[{', '.join(emit(item, depth + 1) for item in value)}]"
        case dict():
            pairs = (f"{emit(key, depth + 1)}: {emit(item, depth + 1)}" for key, item in value.items())
            return f"{{{', '.join(pairs)}}}"
        case slice():
            return f"slice({', '.join(emit(part, depth + 1) for part in (value.start, value.stop, value.step))})"
        case TorchConstant(name):
            return f"torch.{name}"
        case TensorLiteral(elements):
            return f"torch.tensor({emit(as_lists(elements), depth)})"
    return str(value)  # None, True and False


def emit_index(value: object) -> str:
    """Return `value` as the index in ``x[...]``, e.g. ``":, 0"``.

    Raises:
        CompileError: As `emit`.
    """
    if type(value) is tuple:
        assert isinstance(value, tuple)
        if not value:
            return "()"
        items = ", ".join(_index_item(item) for item in value)
        return f"{items}," if len(value) == 1 else items
    return _index_item(value)


def as_lists(elements: object) -> object:
    """Return nested tuples as nested lists, as people write the elements of a tensor."""
    return [as_lists(row) for row in elements] if isinstance(elements, tuple) else elements


def _index_item(value: object) -> str:
    if type(value) is slice:
        assert isinstance(value, slice)
        start, stop, step = (("" if part is None else emit(part)) for part in (value.start, value.stop, value.step))
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"
    return emit(value)


def _quoted(text: str) -> str:
    # ascii() escapes everything that is not printable ASCII; double quotes are what a formatter would choose.
    literal = ascii(text)
    return f'"{literal[1:-1]}"' if literal[0] == "'" and '"' not in literal else literal
