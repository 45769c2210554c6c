"""Estimates the cost of observation, with a confidence interval, from observed steps and their neighbours."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from statistics import fmean, median
from typing import Final, final

import msgspec

_NEAR: Final = 5
"""Neighbours on each side with which an observed step is compared."""

_FEWEST: Final = 10
"""Least number of differences for an interval."""

_MOST: Final = 256
"""Most differences that are kept; a longer training keeps every second one, then every fourth, and so on."""

_TRIMMED: Final = 0.2
"""Share of the differences that the trimmed mean leaves out at either end: outliers from steps that were held up."""


class Overhead(msgspec.Struct, frozen=True):
    """The share of the running time that observing takes.

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
    """Compares observed steps with their unobserved neighbours on both sides.

    A machine's speed changes within seconds by more than the cost of observation, and single steps take ten times as
    long as others. An observed step is therefore compared with the median of its nearest neighbours. Each neighbour is
    used once, so that the differences are nearly independent. The probes' own time is known exactly; the rest of the cost
    is the trimmed mean of the differences, with its t interval (Tukey and McLaughlin).

    All times are processor time of the training thread, in seconds.
    """

    def __init__(self) -> None:
        self._observed = 0
        self._known = 0.0
        self._after: list[float] = []
        """Times of the first `_NEAR` steps since the last observed one."""
        self._last: deque[float] = deque(maxlen=_NEAR)
        self._bare = 0
        """Number of unobserved steps since the last observed one."""
        self._open: tuple[float, list[float]] | None = None
        """The last observed step's time without its known part, and its neighbours before; it waits for those after."""
        self._following: float | None = None
        """Time of the step after it, if that counts as part of its cost."""
        self._differences: list[float] = []
        self._each = 1
        """Of so many differences, one is kept."""
        self._passed = 0

    def bare(self, seconds: float) -> None:
        """Record an unobserved step that took `seconds`."""
        if self._bare < _NEAR:
            self._after.append(seconds)
        self._last.append(seconds)
        self._bare += 1

    def followed(self, seconds: float) -> None:
        """Record the step after an observed one as part of the cost of that one; it took `seconds`."""
        if self._open is not None:
            self._following = seconds

    def observed(self, seconds: float, known: float) -> None:
        """Record an observed step that took `seconds`, `known` of them in the probes' own code."""
        first = self._observed == 0
        self._observed += 1
        self._known += known
        if not self._bare:
            # There is no step beside it to compare with.
            self._open = None
            return
        # Two observed steps share the steps between them; a single one belongs to the first of the two.
        half, single = self._bare // 2 or 1, self._open is not None and self._bare == 1
        if self._open is not None:
            length, before = self._open
            bare = median([*before, *self._after[:half]])
            self._keep(length - bare + (0.0 if self._following is None else self._following - bare))
        self._following = None
        # The first observed step has no fair neighbours: the steps before it include the warm-up.
        self._open = None if first or single else (seconds - known, list(self._last)[-half:])
        self._after, self._bare = [], 0
        self._last.clear()

    def unknown(self) -> tuple[float, float | None]:
        """Return the mean cost of an observed step beyond the known part, in seconds, and half of its 95 % interval or None."""
        return _trimmed_mean(self._differences)

    def over(self, elapsed: float) -> Overhead:
        """Return the share of `elapsed` seconds that observing took."""
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
    """Return the trimmed mean and half of its 95 % interval; the median and None for too few values."""
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
    """Return the 97.5 % quantile of Student's t by an expansion, exact to 0.001 from 7 degrees of freedom on."""
    z = 1.959964
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
