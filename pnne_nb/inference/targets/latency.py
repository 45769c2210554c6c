"""Times several implementations in turns, so that other load of the machine affects all of them equally."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

ROUNDS = 12
"""Turns of each implementation. The spread between them gives the interval."""

RESAMPLES = 400
"""Resamples of the rounds for an interval (the bootstrap)."""

FEW = 1.17
"""Factor by which 12 rounds widen a 95 % interval, compared with many: Student's t ÷ normal × √(12 ÷ 11)."""

DRIFT, RELATIVE_DRIFT = 1.28, 1.1
"""Factors that widen the intervals of times and of ratios. A machine's speed changes within minutes, and one run does not
show that. In twenty tables of one CNN on two shared cores, intervals without these factors held 42 % of the median times
and 66 % of the ratios of later tables; with them, they held 93 % and 90 %."""

LEAST = 3
"""Calls in each turn at least."""


@final
@dataclass(frozen=True, slots=True)
class Measured:
    """A figure with the ends of the interval that contains 95 % of later runs on the same machine."""

    value: float
    low: float
    high: float

    def overlaps(self, other: Measured) -> bool:
        return self.low <= other.high and other.low <= self.high


@final
@dataclass(frozen=True, slots=True)
class Latency:
    """The time of one call.

    Attributes:
        p50: Median in seconds.
        p95: Time in seconds that 95 of 100 calls stay below.
        ratio: Median time divided by that of the first one timed beside it, by rounds.
        calls: Number of calls timed.
    """

    p50: Measured
    p95: Measured
    ratio: Measured
    calls: int


def time_in_turns(
    calls: Mapping[str, Callable[[], object]], *, seconds: float, rounds: int = ROUNDS
) -> dict[str, Latency]:
    """Time calls in turns, each warmed up; the order changes with each round.

    Args:
        calls: By name; the first one is what the others are compared with.
        seconds: To spend on each, about.
        rounds: Turns of each.
    """
    counts = {name: _count(call, seconds / rounds) for name, call in calls.items()}
    times: dict[str, list[list[float]]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(rounds):
        start = number % len(names)
        for name in names[start:] + names[:start]:
            times[name].append([_seconds(calls[name]) for _ in range(counts[name])])
    first = [statistics.median(each) for each in times[names[0]]]
    chance = random.Random(0)  # noqa: S311  # resampling, not secrets
    return {name: _latency(times[name], first, chance) for name in names}


def _count(call: Callable[[], object], seconds: float) -> int:
    _seconds(call)
    once = min(_seconds(call) for _ in range(2))
    return max(LEAST, int(seconds / max(once, 1e-7)))


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return max(time.perf_counter() - start, 1e-9)


def _latency(rounds: Sequence[Sequence[float]], first: Sequence[float], chance: random.Random) -> Latency:
    medians = [statistics.median(each) for each in rounds]
    ratios = [mine / other for mine, other in zip(medians, first, strict=True)]
    count = sum(map(len, rounds))
    samples = [chance.choices(range(len(rounds)), k=len(rounds)) for _ in range(RESAMPLES)]
    pooled = [sorted(time for place in sample for time in rounds[place]) for sample in samples]
    timed = sorted(time for each in rounds for time in each)
    return Latency(
        _interval(_quantile(timed, 0.5), [_quantile(each, 0.5) for each in pooled], medians, DRIFT),
        _interval(_quantile(timed, 0.95), [_quantile(each, 0.95) for each in pooled], (), DRIFT),
        _interval(
            statistics.median(ratios),
            [statistics.median(ratios[place] for place in each) for each in samples],
            ratios,
            1.0 if medians == first else RELATIVE_DRIFT,
        ),
        count,
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _interval(value: float, resampled: Sequence[float], rounds: Sequence[float], drift: float) -> Measured:
    """Return the interval of the figure in later runs: its spread is that of one resample divided by another, times `drift`.

    The median of a later run, which is made of such rounds too, is not beyond those of all rounds. Where these are far apart,
    because other programs have stopped some calls, the resamples alone would reach much further.
    """
    pairs = zip(resampled, [*resampled[1:], resampled[0]], strict=True)
    changes = sorted((one / other) ** FEW for one, other in pairs)
    low, high = value * _quantile(changes, 0.025), value * _quantile(changes, 0.975)
    least, most = min(rounds, default=0.0), max(rounds, default=float("inf"))
    return Measured(value, min(value, max(low, least)) / drift, max(value, min(high, most)) * drift)
