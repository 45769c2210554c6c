"""Two ways of doing the same work, compared on a machine that others use too.

A machine becomes faster and slower within seconds, by far more than what is to be found. So the two take turns in
short blocks, A B B A, whose ratio no steady drift can move; so does a third, which is A once more: what it shows
against A is what this comparison shows where there is nothing to find, and stands beside every figure. What B is
compared with is the mean of the two, which is surer than either. A round is one mirrored sequence of all three, the
figure the median of the rounds' ratios, with the interval that 95 % of resamplings of the rounds give. A budget is
kept if the whole interval is within it, and broken if none of it is; in between, or where the null itself is off, the
run was too noisy to tell, and says so.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

Cost = Mapping[str, float]
"""What a unit of work took, by clock: ``{"cpu": 0.012, "wall": 0.013}`` seconds a step."""

Verdict = Literal["kept", "broken", "not settled"]

Block = Callable[[], Cost]

Blocks = tuple[Block, Block, Block]
"""Does a block of work the one way, the one way once more, the other way; returns what a unit of it took."""

FEWEST = 9
"""Rounds that an interval needs; a multiple of the three orders."""

REMADE = 6
"""Rounds until everything is made anew: where its tensors happen to lie makes one model slower than its equal."""

_RESAMPLINGS = 4000

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Options of glibc's ``mallopt``, from malloc.h."""


@dataclass(frozen=True)
class Interval:
    """The median of the rounds' ratios, and where 95 % of resamplings put it."""

    middle: float
    low: float
    high: float

    def spread(self, share: float) -> Interval:
        """See `Comparison.spread`."""
        return Interval(*(1 + (value - 1) * share for value in (self.middle, self.low, self.high)))

    def __str__(self) -> str:
        return f"{self.middle:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Comparison:
    """What one comparison found, by one clock.

    Attributes:
        ratio: The other way against the bare one, of which both are the mean.
        null: The bare one against itself: the noise of this run.
        bare: Seconds that a unit of the bare work took, median.
        rounds: How many there were.
    """

    ratio: Interval
    null: Interval
    bare: float
    rounds: int

    def __str__(self) -> str:
        return f"{self.ratio} (null {self.null})"

    def spread(self, share: float) -> Comparison:
        """Return the same of longer stretches of work, of which the blocks are `share` and the rest costs both ways alike."""
        return replace(self, ratio=self.ratio.spread(share), null=self.null.spread(share))

    def verdict(self, budget: float) -> Verdict:
        """Whether a budget is kept, as far as this run can tell."""
        # A run that finds half of the budget where there is nothing to find has no right to an opinion.
        if not self.null.low <= 1 <= self.null.high and abs(self.null.middle - 1) > (budget - 1) / 2:
            return "not settled"
        return "kept" if self.ratio.high <= budget else "broken" if self.ratio.low > budget else "not settled"


def compare(
    make: Callable[[], Blocks], *, seconds: float, precision: float = 0.004, turns: int = 1
) -> dict[str, Comparison]:
    """Let the two ways take turns until the first clock's interval is narrow enough, or the time is up.

    Args:
        make: Makes what is compared: the bare way twice, and the other.
        seconds: To spend at most, once there are `FEWEST` rounds.
        precision: Half the width of the interval that suffices. It says nothing about where the interval lies, so
            stopping by it favours no verdict.
        turns: Mirrored sequences in a round: so many that whatever a way does only now and then is in each of them.
    """
    orders = (("bare", "again", "other"), ("again", "other", "bare"), ("other", "bare", "again"))
    _keep_memory()
    blocks: dict[str, Block] = {}
    rounds: list[dict[str, Cost]] = []
    until = time.monotonic() + seconds
    while True:
        if len(rounds) % REMADE == 0:
            blocks = dict(zip(orders[0], make(), strict=True))
            for block in blocks.values():
                block()
        order = orders[len(rounds) % len(orders)]
        taken: dict[str, list[Cost]] = {name: [] for name in blocks}
        for name in (*order, *reversed(order)) * turns:
            taken[name].append(blocks[name]())
        rounds.append({name: _mean(costs) for name, costs in taken.items()})
        if len(rounds) < FEWEST:
            continue
        found = {clock: _summarise(rounds, clock) for clock in rounds[0]["bare"]}
        first = next(iter(found.values())).ratio
        if first.high - first.low <= 2 * precision or time.monotonic() >= until:
            return found


def _keep_memory() -> None:
    """Have glibc keep what is freed, for all sides.

    By default it gives the heap's end back and takes it again, page by page: 100 to 4,000 page faults a step of a small
    CNN, up to a quarter of its time, and how many depends on where the last small tensor lies.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        for option in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD):
            libc.mallopt(option, 1 << 30)


def _mean(costs: list[Cost]) -> Cost:
    return {clock: float(np.mean([cost[clock] for cost in costs])) for clock in costs[0]}


def _summarise(rounds: list[dict[str, Cost]], clock: str) -> Comparison:
    bare, again, other = (np.array([round_[name][clock] for round_ in rounds]) for name in ("bare", "again", "other"))
    both = (bare + again) / 2
    return Comparison(_interval(other / both), _interval(again / bare), float(np.median(both)), len(rounds))


def _interval(ratios: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Interval:
    chosen = np.random.default_rng(0).integers(0, len(ratios), (_RESAMPLINGS, len(ratios)))
    low, high = np.percentile(np.median(ratios[chosen], axis=1), (2.5, 97.5))
    return Interval(float(np.median(ratios)), float(low), float(high))
