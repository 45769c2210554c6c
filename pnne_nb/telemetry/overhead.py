"""Estimates what watching costs, with an interval, from the observed steps of a training and those beside them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import fmean, median
from typing import Final, final

import msgspec

_NEAR: Final = 5
"""Steps on each side that an observed one is compared with: those further away say less about it."""

_FEWEST: Final = 10
"""Differences that an interval needs."""

_MOST: Final = 256
"""Differences that are kept: of more, every second, so that a long training needs no more room."""

_TRIMMED: Final = 0.2
"""Of the differences at either end that do not count in their mean: a step may be held up for reasons of its own."""


class Overhead(msgspec.Struct, frozen=True):
    """The share of the running time that watching takes.

    Attributes:
        share: 0 to 1.
        margin: Half of its 95 % interval; None while there are too few observed steps to tell.
    """

    share: float
    margin: float | None = None

    def __str__(self) -> str:
        if self.margin is None:
            return f"{100 * self.share:.1f} %"
        return f"{100 * self.share:.1f} ± {100 * self.margin:.1f} %"


@final
class PairedOverhead:
    """Compares observed steps with their neighbours on both sides that were not observed.

    A machine becomes faster and slower within seconds, by more than what is to be found, and now and then it holds up a
    step for as long as ten others. An observed step is therefore compared with the median of its nearest neighbours,
    each of which counts once, and what is left are differences that know little of each other. What probes know that
    they took is exact; the rest is the trimmed mean of these differences, with its t interval (Tukey and McLaughlin).

    All times are seconds of the training thread's own processor time.
    """

    def __init__(self) -> None:
        self._observed = 0
        self._known = 0.0
        self._after: list[float] = []
        """The first steps since the last observed one."""
        self._last: deque[float] = deque(maxlen=_NEAR)
        self._bare = 0
        """How many there are since then."""
        self._open: tuple[float, list[float]] | None = None
        """An observed step without its known part, and those before it, until there are some after it."""
        self._following: float | None = None
        """The step that follows it, where that counts as well."""
        self._differences: list[float] = []
        self._each = 1
        """One in so many differences is kept."""
        self._passed = 0

    def bare(self, seconds: float) -> None:
        """Take in a step that was not observed, and took `seconds`."""
        if self._bare < _NEAR:
            self._after.append(seconds)
        self._last.append(seconds)
        self._bare += 1

    def followed(self, seconds: float) -> None:
        """Take in the step that follows an observed one and took `seconds`, where it is to count as a part of that one."""
        if self._open is not None:
            self._following = seconds

    def observed(self, seconds: float, known: float) -> None:
        """Take in a step that was observed, and took `seconds`, of which the probes know that they took `known`."""
        first = self._observed == 0
        self._observed += 1
        self._known += known
        if not self._bare:
            # There is no step beside it to compare with.
            self._open = None
            return
        # Between two that are close, each has half of the steps; a single one is for the first of them.
        half, single = self._bare // 2 or 1, self._open is not None and self._bare == 1
        if self._open is not None:
            length, before = self._open
            bare = median([*before, *self._after[:half]])
            self._keep(length - bare + (0.0 if self._following is None else self._following - bare))
        self._following = None
        # The steps before the first one are still slow for reasons of their own.
        self._open = None if first or single else (seconds - known, list(self._last)[-half:])
        self._after, self._bare = [], 0
        self._last.clear()

    def unknown(self) -> tuple[float, float | None]:
        """Return the seconds that an observed step took beside what was known, and half of their 95 % interval, if known."""
        return _trimmed_mean(self._differences)

    def over(self, elapsed: float) -> Overhead:
        """Return the share of `elapsed` seconds that watching took."""
        if elapsed <= 0 or not self._observed:
            return Overhead(0.0)
        extra, margin = self.unknown()
        share = min(1.0, max(0.0, (self._known + self._observed * extra) / elapsed))
        return Overhead(share, None if margin is None else margin * self._observed / elapsed)

    def _keep(self, difference: float) -> None:
        self._passed += 1
        if self._passed % self._each:
            return
        self._differences.append(difference)
        if len(self._differences) == _MOST:
            self._differences = self._differences[1::2]
            self._each *= 2


def _trimmed_mean(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean without the ends, and half of its 95 % interval, which is None of too few."""
    ordered = sorted(values)
    count = len(ordered)
    if count < _FEWEST:
        return (median(ordered) if ordered else 0.0), None
    cut = int(_TRIMMED * count)
    kept = ordered[cut : count - cut]
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    middle = fmean(winsorised)
    squares = sum((value - middle) ** 2 for value in winsorised)
    return fmean(kept), _student(len(kept) - 1) * math.sqrt(squares / (len(kept) * (len(kept) - 1)))


def _student(freedom: int) -> float:
    """Return what 97.5 % of Student's distribution lie below: an expansion, within 0.001 from 7 degrees of freedom."""
    z = 1.959964
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
