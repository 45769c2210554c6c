"""Chooses round numbers for axes: the range that an axis spans, and where its labels stand."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_LABELS = 6
"""Labels of a logarithmic axis, at most."""
_FEW = 3
"""Powers of ten that a logarithmic axis may span to have values between them."""


def linear_ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Round, evenly spaced values from at or below `low` to at or above `high`.

    Args:
        low: Least value to show; finite.
        high: Greatest value to show; finite and not less.
        whole: Whether only whole numbers make sense.
    """
    if high <= low:
        margin = 1.0 if whole or low == 0 else abs(low) * 0.1
        low, high = low - (0.0 if whole else margin), low + margin
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in _STEPS if power * factor >= rough * (1 - 1e-9))
    if whole:
        step = float(max(1, math.ceil(step)))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    # Multiples written out, not summed up: 0.1 + 0.2 is not a tick that anybody wants to read.
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round values from at or below `low` to at or above `high`, for a logarithmic scale.

    Of a wide range powers of ten, thinned out when there are more than six; of a narrower one 1, 2, 5, 10, 20 …,
    because whole powers would leave most of the axis empty.

    Args:
        low: Least value to show; positive.
        high: Greatest value to show; finite.
    """
    first = math.floor(math.log10(low) + 1e-9)
    last = max(first + 1, math.ceil(math.log10(high) - 1e-9))
    if last - first <= _FEW:
        powers = range(first, last)
        fine = [float(f"{factor}e{power}") for power in powers for factor in (1, 2, 5)] + [float(f"1e{last}")]
        # Two intervals at least, or it is no axis.
        begin = min(bisect_right(fine, low * (1 + 1e-9)) - 1, len(fine) - 3)
        end = max(bisect_left(fine, high * (1 - 1e-9)), begin + 2)
        if end - begin < _LABELS:
            return fine[begin : end + 1]
    stride = -(-(last - first) // (_LABELS - 1))
    return [float(f"1e{first + index * stride}") for index in range(-(-(last - first) // stride) + 1)]
