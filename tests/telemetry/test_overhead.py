from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest

from pnne_nb.telemetry.overhead import Overhead, PairedOverhead

KNOWN = 0.0002


def lengths(draw: random.Random, resemblance: float, held_up: float) -> Iterator[float]:
    """Steps of 10 ms that differ by 10 %, each like the one before it; a few take as long as several."""
    state = draw.gauss(0, 1)
    while True:
        state = resemblance * state + math.sqrt(1 - resemblance**2) * draw.gauss(0, 1)
        yield 0.010 * math.exp(0.1 * state) * (draw.uniform(2, 6) if draw.random() < held_up else 1.0)


def train(draw: random.Random, steps: Iterator[float], observed: int, between: int) -> tuple[Overhead, float]:
    """Every so many steps one is observed, for about 0.7 ms; returns what is estimated, and the truth."""
    paired, spent, elapsed = PairedOverhead(), 0.0, 0.0
    for _ in range(observed):
        for _ in range(between):
            bare = next(steps)
            paired.bare(bare)
            elapsed += bare
        cost = KNOWN + draw.uniform(0.0003, 0.0007)
        length = next(steps) + cost
        paired.observed(length, KNOWN)
        spent += cost
        elapsed += length
    return paired.over(elapsed), spent / elapsed


@pytest.mark.parametrize("between", [1, 4, 10])
@pytest.mark.parametrize(("resemblance", "held_up"), [(0.0, 0.0), (0.5, 0.01), (0.9, 0.0), (0.9, 0.01)])
def test_the_interval_holds_the_truth_in_19_of_20_runs(resemblance: float, held_up: float, between: int) -> None:
    draw, runs, held, error = random.Random(1), 400, 0, 0.0  # the same runs each time
    for _ in range(runs):
        cost, truth = train(draw, lengths(draw, resemblance, held_up), 30, between)
        assert cost.margin is not None
        held += abs(cost.share - truth) <= cost.margin
        error += (cost.share - truth) / truth / runs
    # What 400 runs may be off by chance, twice, at each end: the same draws come each time.
    assert 0.93 - 0.025 <= held / runs <= 0.97 + 0.025
    assert abs(error) < 0.1


def test_a_drift_is_not_taken_for_a_cost() -> None:
    paired = PairedOverhead()
    for step in range(400):
        length = 0.010 + step * 1e-4
        if step % 10 == 0:
            paired.observed(length + 0.003, 0.002)
        else:
            paired.bare(length)
    cost = paired.over(1.0)
    assert cost.share == pytest.approx(40 * 0.003)
    assert cost.margin == pytest.approx(0.0, abs=1e-6)


def test_too_few_steps_have_no_interval() -> None:
    paired = PairedOverhead()
    assert paired.over(1.0) == Overhead(0.0)
    for _ in range(9):
        for _ in range(10):
            paired.bare(0.010)
        paired.observed(0.012, 0.002)
    cost = paired.over(1.0)
    assert cost.share == pytest.approx(0.018)
    assert cost.margin is None


def test_where_every_step_is_observed_only_what_probes_know_is_counted() -> None:
    paired = PairedOverhead()
    for _ in range(100):
        paired.observed(0.012, 0.002)
    cost = paired.over(1.0)
    assert cost.share == pytest.approx(0.2)
    assert cost.margin is None


def test_a_long_training_takes_no_more_room_and_is_told_of_as_a_whole() -> None:
    paired = PairedOverhead()
    for step in range(20_000):
        paired.observed(0.011 if step < 10_000 else 0.013, 0.0)
        for _ in range(10):
            paired.bare(0.010)
    assert len(paired._differences) < 256
    # Half of the steps cost 1 ms and half 3 ms: 40 seconds altogether.
    assert paired.over(1000.0).share == pytest.approx(0.04, rel=0.05)


def test_a_share_is_one_and_never_negative() -> None:
    paired = PairedOverhead()
    for _ in range(20):
        for _ in range(10):
            paired.bare(0.010)
        paired.observed(0.009, 0.0)
    assert paired.over(1.0).share == 0.0
    assert paired.over(0.0) == Overhead(0.0)
    paired.observed(9.0, 9.0)
    assert paired.over(1.0).share == 1.0


def test_a_cost_is_shown_with_its_interval() -> None:
    assert str(Overhead(0.0142, 0.0031)) == "1.4 ± 0.3 %"
    assert str(Overhead(0.0142)) == "1.4 %"
