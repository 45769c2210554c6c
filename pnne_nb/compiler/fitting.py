"""Finds the expression behind sizes that were seen in a few trial runs.

Every symbolic size is given several values at once (`probe_values`); whatever a node returns is a number per
trial. `fit` finds what the numbers have to do with the sizes of the node's inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations

from pnne_nb.compiler.sizes import Size, add, affine, divide, multiply, number

Trials = tuple[int, ...]
"""The value of one size in each trial."""

_DIVISORS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 48, 64)
_LARGEST_FACTOR = 64

Refine = Callable[[Trials, int], int | None]
"""Runs the node again with an input size (given by its trials) enlarged by some amount over its first trial;
returns the size in question, or None if the node refuses."""


def fit(
    seen: Trials, inputs: Sequence[tuple[Size, Trials]], same_axis: Sequence[tuple[Size, Trials]], refine: Refine
) -> Size | None:
    """Return the expression that explains what was seen, or None.

    Args:
        seen: The size in question.
        inputs: Every size of the inputs that differs between trials, first those at the same place.
        same_axis: The sizes, fixed ones included, of all inputs at the same place.
        refine: For rounding that the trials leave open.
    """
    if len(set(seen)) == 1:
        return number(seen[0])
    for size, trials in inputs:
        if trials == seen:
            return size
    if len(same_axis) > 1 and all(
        sum(values) == seen[k] for k, values in enumerate(zip(*(t for _, t in same_axis), strict=True))
    ):
        return add(size for size, _ in same_axis)
    for size, trials in inputs:
        found = _affine(seen, size, trials, refine)
        if found is not None:
            return found
    return _product(seen, inputs) or _sum(seen, inputs)


def _affine(seen: Trials, size: Size, trials: Trials, refine: Refine) -> Size | None:
    if len(set(trials)) < len(trials):
        return None
    for divisor in _DIVISORS:
        slope = (seen[-1] - seen[0]) / (trials[-1] - trials[0]) * divisor
        for factor in sorted({math.floor(slope), math.ceil(slope)}, key=lambda f: abs(f - slope)):
            if factor <= 0 or factor > _LARGEST_FACTOR or math.gcd(factor, divisor) > 1:
                continue
            # divisor*seen <= factor*size + offset < divisor*(seen + 1), in every trial
            low = max(divisor * s - factor * t for s, t in zip(seen, trials, strict=True))
            high = min(divisor * s - factor * t + divisor - 1 for s, t in zip(seen, trials, strict=True))
            if low > high:
                continue
            for step in range(1, divisor):
                if low == high:
                    break
                more = refine(trials, step)
                if more is None:
                    break
                low = max(low, divisor * more - factor * (trials[0] + step))
                high = min(high, divisor * more - factor * (trials[0] + step) + divisor - 1)
            if low > high:
                continue
            offset = min(range(low, high + 1), key=abs)
            return divide(affine(size, factor, offset), divisor)
    return None


def _product(seen: Trials, inputs: Sequence[tuple[Size, Trials]]) -> Size | None:
    """Return a multiple or a fraction of a product of input sizes: what ``flatten`` and ``view`` give."""
    distinct = list({trials: (size, trials) for size, trials in inputs}.values())[:6]
    for count in range(2, len(distinct) + 1):
        for chosen in combinations(distinct, count):
            products = [math.prod(values) for values in zip(*(trials for _, trials in chosen), strict=True)]
            if any(s * products[0] != seen[0] * p for s, p in zip(seen, products, strict=True)):
                continue
            common = math.gcd(seen[0], products[0])
            whole = multiply(size for size, _ in chosen)
            return divide(affine(whole, seen[0] // common, 0), products[0] // common)
    return None


def _sum(seen: Trials, inputs: Sequence[tuple[Size, Trials]]) -> Size | None:
    for (one, ones), (other, others) in combinations(inputs, 2):
        rest = {s - a - b for s, a, b in zip(seen, ones, others, strict=True)}
        if len(rest) == 1:
            return affine(add((one, other)), 1, rest.pop())
    return None


def probe_values(axis: int, rank: int, index: int) -> tuple[int, int, int]:
    """Return three trial values for a symbolic size.

    Recurrent layers are unrolled in a trial, so that what may be a sequence is short; what may be an image or
    a signal is long enough for deep strided networks, and divisible.

    Args:
        axis: At which it stands in its Input.
        rank: How many axes that Input has.
        index: How many symbols have been given values before.
    """
    if (rank >= 4 and axis >= 2) or (rank == 3 and axis == 2):
        return 256 + 64 * index, 320 + 128 * index, 448 + 192 * index
    return 6 + 2 * index, 7 + 3 * index, 9 + 5 * index
