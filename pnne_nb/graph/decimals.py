"""Numbers of arrays as a person writes them: 0.1, where a float32 made a double says 0.10000000149011612."""

from __future__ import annotations

import math
import struct
from typing import Protocol, TypeGuard

_NARROW = {"float32": ("f", range(6, 10)), "float16": ("e", range(3, 6))}
"""By dtype: its code for ``struct``, and how many digits tell two of its values apart: from always few to always enough."""


class Array(Protocol):
    """A tensor, an array, or one element of an array: the core knows neither torch nor NumPy."""

    @property
    def dtype(self) -> object: ...

    def tolist(self) -> object: ...


def is_array(value: object) -> TypeGuard[Array]:
    """Whether `value` is a tensor, an array, or one element of an array."""
    # Asked of every default of the catalogue: for a runtime-checkable protocol, Python walks its members each time.
    return hasattr(value, "tolist") and hasattr(value, "dtype")


def decimals(array: Array) -> object:
    """Return the numbers of an array, nested as by ``tolist``, each as the shortest decimal that is the same number.

    The same in the array's own dtype, that is: nothing is lost where it becomes an array of that dtype again.
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
    """Return `value` as it is kept in fewer bits; NaN, equal to nothing, where it is too large for them."""
    try:
        narrow: float = struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.nan
    return narrow
