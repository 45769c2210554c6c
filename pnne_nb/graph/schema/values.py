"""The closed set of constants that a document may hold, and their JSON form.

Python value                              JSON form
None, bool, int, finite float, str        themselves
Calculated                                {"$size": ["4*hidden", 256]}
tuple                                     array
list                                      {"$list": [...]}
dict                                      {"$dict": [[key, value], ...]}
complex                                   {"$complex": [re, im]}
inf, -inf, nan                            {"$float": "inf"}
slice                                     {"$slice": [start, stop, step]}
Ellipsis                                  {"$ellipsis": true}
TorchConstant                             {"$torch": "float32"}

Nothing else can be stored in a file, sent by a browser, or written into generated source.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from types import EllipsisType
from typing import Literal, Protocol, Self, TypeAlias, TypeGuard, final, get_args

import msgspec

Dtype: TypeAlias = Literal[
    "float32", "float64", "float16", "bfloat16",
    "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64",
    "bool", "complex32", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
]  # fmt: skip
"""Name of a ``torch.dtype`` object, most used first."""

DTYPES: tuple[Dtype, ...] = get_args(Dtype)

MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")

_TORCH_NAMES = frozenset((*DTYPES, *MEMORY_FORMATS, *LAYOUTS))

MAX_DEPTH = 32
"""Constants nested deeper than this are refused: no model needs them, but a hostile file may have them."""

MAX_BITS = 3300
"""Whole numbers longer than this are refused: Python reads no JSON number of more than 4,300 digits."""


@final
class TorchConstant(msgspec.Struct, frozen=True):
    """A named constant of the ``torch`` namespace: a dtype, memory format or layout.

    Attributes:
        name: The attribute of ``torch``, from a closed set, e.g. ``"float32"``.
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in _TORCH_NAMES:
            raise ValueError(f"{self.name!r} is not a dtype, memory format or layout of torch.")


@final
class Calculated(int):
    """A whole number that is calculated from named sizes of the graph.

    Attributes:
        text: The calculation, as ``"4*hidden"``.
    """

    text: str

    def __new__(cls, value: int, text: str) -> Self:
        made = super().__new__(cls, value)
        made.text = text
        return made

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]  # of this class's own constructor
        return int(self), self.text

    def __repr__(self) -> str:
        # Also the number: caches tell values apart by their text.
        return f"{self.text} ({int(self)})"


# Not one string: `help` and `inspect.signature` would look up its names where the alias is used.
Value: TypeAlias = (
    None | bool | int | float | complex | str | tuple["Value", ...] | list["Value"] | dict["Value", "Value"]  # noqa: RUF036  the order of the wire format
    | slice | EllipsisType | TorchConstant
)  # fmt: skip


def to_json(value: object) -> object:
    """Return the JSON form of a constant.

    Raises:
        TypeError: If `value`, or something inside it, is not one of the constants of this module.
    """
    match value:
        case None | bool():
            return value
        case Calculated():
            return {"$size": [value.text, int(value)]}
        case int():
            if value.bit_length() > MAX_BITS:
                raise TypeError("A whole number of more than 1,000 digits cannot be stored in a graph.")
            return int(value)
        case str():
            if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
                raise TypeError("A text with half a surrogate pair cannot be stored in a graph.")
            return value[:]  # of a subclass, the plain text
        case float():
            return float(value) if math.isfinite(value) else {"$float": str(value)}
        case complex():
            return {"$complex": [to_json(value.real), to_json(value.imag)]}
        case tuple():
            return [to_json(item) for item in value]
        case list():
            return {"$list": [to_json(item) for item in value]}
        case dict():
            return {"$dict": [[to_json(key), to_json(item)] for key, item in value.items()]}
        case slice():
            return {"$slice": [to_json(value.start), to_json(value.stop), to_json(value.step)]}
        case EllipsisType():
            return {"$ellipsis": True}
        case TorchConstant():
            return {"$torch": value.name}
    raise TypeError(
        f"A {type(value).__name__} cannot be stored in a graph; use a number, string, tuple, list, dict, "
        "slice or the name of a dtype."
    )


def from_json(data: object, depth: int = 0) -> Value:
    """Return the constant whose JSON form is `data`.

    Raises:
        ValueError: If `data` is not the JSON form of a constant.
    """
    if depth > MAX_DEPTH:
        raise ValueError(f"The constant is nested more than {MAX_DEPTH} deep.")
    match data:
        case None | bool() | int() | float() | str():
            return data
        case list() | tuple():
            return tuple(from_json(item, depth + 1) for item in data)
        case Mapping() if len(data) == 1:
            ((tag, body),) = data.items()
            return _tagged(tag, body, depth + 1)
    raise ValueError(f"{str(data)[:60]!r} is not the JSON form of a constant.")


def _tagged(tag: object, body: object, depth: int) -> Value:
    match tag, body:
        case "$list", [*items]:
            return [from_json(item, depth) for item in items]
        case "$dict", [*pairs]:
            result: dict[Value, Value] = {}
            for pair in pairs:
                if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                    raise ValueError('"$dict" needs [key, value] pairs.')
                key = from_json(pair[0], depth)
                try:
                    result[key] = from_json(pair[1], depth)
                except TypeError:
                    raise ValueError(f"{key!r} cannot be a dictionary key.") from None
            return result
        case "$complex", [real, imag]:
            parts = from_json(real, depth), from_json(imag, depth)
            if all(isinstance(part, (int, float)) for part in parts):
                return complex(*parts)  # type: ignore[arg-type]  # checked on the line above
        case "$float", ("inf" | "-inf" | "nan"):
            return float(body)
        case "$slice", [start, stop, step]:
            return slice(from_json(start, depth), from_json(stop, depth), from_json(step, depth))
        case "$size", [str(text), int(number)] if _FORMULA.fullmatch(text):
            return Calculated(number, text)
        case "$ellipsis", True:
            return ...
        case "$torch", str():
            return TorchConstant(body)
    raise ValueError(f"{tag!r} with {str(body)[:60]!r} is not the JSON form of a constant.")


def mapped(value: object, change: Callable[[Calculated], object]) -> object:
    """Return a constant with `change` applied to each calculated number in it; the same object if there is none."""
    match value:
        case Calculated():
            return change(value)
        case tuple() | list():
            items = [mapped(item, change) for item in value]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            return tuple(items) if isinstance(value, tuple) else items
        case dict():
            return {key: mapped(item, change) for key, item in value.items()}
        case slice():
            return slice(*(mapped(part, change) for part in (value.start, value.stop, value.step)))
    return value


_FORMULA = re.compile(r"[-A-Za-z0-9_+*/()]{1,200}")
_NARROW = {"float32": ("f", range(6, 10)), "float16": ("e", range(3, 6))}
"""By dtype: its code for ``struct``, and the numbers of digits that may tell two of its values apart; the last always does."""


class Array(Protocol):
    """A tensor, an array, or one element of an array; this room imports neither torch nor NumPy."""

    @property
    def dtype(self) -> object: ...

    def tolist(self) -> object: ...


def is_array(value: object) -> TypeGuard[Array]:
    """Return whether `value` is a tensor, an array, or one element of an array."""
    # Called for every default of the catalogue: a runtime-checkable protocol would be slower.
    return hasattr(value, "tolist") and hasattr(value, "dtype")


def decimals(array: Array) -> object:
    """Return the numbers of an array, nested as by ``tolist``, each as the shortest decimal that equals it.

    They are equal in the dtype of the array: nothing is lost when they become an array of that dtype again.
    """
    numbers = array.tolist()
    narrow = _NARROW.get(str(array.dtype).removeprefix("torch."))
    return numbers if narrow is None else _shortened(numbers, *narrow)


def _shortened(value: object, code: str, digits: range) -> object:
    if isinstance(value, list):
        return [_shortened(item, code, digits) for item in value]
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return next((short for count in digits if _narrowed(short := float(f"{value:.{count}g}"), code) == value), value)


def _narrowed(value: float, code: str) -> float:
    """Return `value` rounded to fewer bits; NaN if it is too large for them."""
    try:
        narrow: float = struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.nan
    return narrow
