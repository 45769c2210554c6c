from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.telemetry.probe import Cadence, Toll


def test_a_cheap_observation_comes_at_the_rate_asked_for() -> None:
    cadence = Cadence(hz=10)
    assert cadence.due(0.0)
    cadence.spent(1e-6)
    assert not cadence.due(0.09)
    assert cadence.due(0.1)


def test_a_costly_observation_comes_as_often_as_the_budget_allows() -> None:
    cadence = Cadence(hz=10, budget=0.02)
    assert cadence.due(0.0)
    cadence.spent(0.01)
    assert not cadence.due(0.49)
    assert cadence.due(0.5)
    assert cadence.share(0.5) == pytest.approx(0.02)


@pytest.mark.parametrize(("length", "observed"), [(1 / 64, 80), (3 / 64, 80), (5 / 64, 80), (1 / 4, 40)])
def test_steps_of_any_length_are_observed_as_often_as_asked_for(length: float, observed: int) -> None:
    cadence = Cadence(hz=8, budget=0.02)
    count = 0
    for step in range(round(10 / length)):
        if cadence.due(step * length):
            cadence.spent(0.001)
            count += 1
    assert abs(count - observed) <= 1
    assert cadence.share(10.0) <= 0.01


def test_what_was_missed_is_not_made_up_for() -> None:
    cadence = Cadence(hz=8)
    assert cadence.due(0.0)
    cadence.spent(1e-6)
    assert cadence.due(1000.0)
    cadence.spent(1e-6)
    assert not cadence.due(1000.0625)


@given(
    st.lists(st.tuples(st.floats(1e-4, 2.0), st.floats(1e-5, 0.1)), min_size=1, max_size=200),
    st.sampled_from([0.01, 0.02, 0.2]),
)
def test_the_budget_is_kept_whatever_steps_and_observations_take(
    steps: list[tuple[float, float]], budget: float
) -> None:
    cadence, now, spent = Cadence(hz=10, budget=budget), 0.0, 0.0
    for length, cost in steps:
        if cadence.due(now):
            # All that was spent before is paid for by the time since the first step.
            assert spent <= budget * now * (1 + 1e-9)
            cadence.spent(cost)
            spent += cost
        now += length
    assert cadence.share(now) <= budget * (1 + 1e-9)


def test_the_first_observation_is_compared_with_the_time_that_it_pays_for() -> None:
    cadence = Cadence(hz=10, budget=0.02)
    assert cadence.due(0.0)
    cadence.spent(0.001)
    assert cadence.share(0.002) == pytest.approx(0.01)


def test_nothing_is_observed_at_zero_hertz() -> None:
    assert not Cadence(hz=0).due(0.0)


def test_no_share_before_the_first_step() -> None:
    assert Cadence().share(1.0) == 0.0


@pytest.mark.parametrize("budget", [0.0, -1.0, 1.5])
def test_a_budget_is_a_share(budget: float) -> None:
    with pytest.raises(ValueError, match="budget must be a share of the running time"):
        Cadence(budget=budget)


def test_the_first_observation_costs_nothing_since_it_sets_up_what_the_others_use() -> None:
    assert Toll().observed(1.0, 0.5) == 0.0


def test_what_hooks_take_inside_the_step_is_found_from_its_length() -> None:
    toll = Toll()
    toll.observed(1.0, 0.5)
    for _ in range(100):
        toll.bare(0.010, now=0.0)
        cost = toll.observed(0.015, known=0.002)
    assert cost == pytest.approx(0.005, rel=0.01)


@pytest.mark.parametrize(("known", "cost"), [(0.002, 0.0035), (0.0005, 0.003)])
def test_a_short_step_that_follows_an_observed_one_is_a_part_of_the_cost(known: float, cost: float) -> None:
    toll, clock = Toll(), itertools.count()
    toll.observed(1.0, 0.5)
    for _ in range(30):
        for _ in range(10):
            toll.bare(0.001, now=next(clock))
        found = toll.observed(0.004, known=known)
        assert toll.next_bare == float("-inf")
        # It takes half a millisecond more than the others, and counts where the probes took as long.
        toll.bare(0.0015, now=next(clock))
    assert found == pytest.approx(cost)
    assert toll.paired.over(1.0).share == pytest.approx(30 * cost, rel=0.02)


def test_the_longer_it_watches_the_less_is_taken_off_for_chance() -> None:
    toll, draw = Toll(), random.Random(0)
    toll.observed(1.0, 0.5)
    costs = []
    for _ in range(200):
        for _ in range(10):
            toll.bare(0.010 + draw.gauss(0, 0.001), now=0.0)
        costs.append(toll.observed(0.012 + draw.gauss(0, 0.001), known=0.001))
    assert costs[10] < costs[-1] < 0.002
    assert costs[-1] == pytest.approx(0.002, rel=0.15)


def test_what_steps_differ_by_on_their_own_is_not_taken_for_the_cost() -> None:
    toll, lengths = Toll(), itertools.cycle([0.100, 0.130, 0.090, 0.110, 0.140, 0.105, 0.095])
    toll.observed(1.0, 0.5)
    for _ in range(50):
        for _ in range(3):
            toll.bare(next(lengths), now=0.0)
        cost = toll.observed(next(lengths) + 0.002, known=0.002)
    assert cost == pytest.approx(0.002)


def test_the_rate_is_that_of_the_last_observation() -> None:
    cadence = Cadence(hz=10, budget=0.02)
    assert cadence.rate == 0.0
    cadence.due(0.0)
    cadence.spent(0.010)
    assert cadence.rate == pytest.approx(2.0)


def test_one_step_that_was_held_up_does_not_end_the_watching() -> None:
    toll = Toll()
    toll.observed(1.0, 0.5)
    toll.bare(0.010, now=0.0)
    assert toll.observed(0.110, known=0.001) < 0.012
    assert toll.observed(0.001, known=0.001) >= 0.001


def test_a_step_that_took_long_is_forgotten_at_once() -> None:
    toll = Toll()
    toll.observed(1.0, 0.5)
    for _ in range(5):
        toll.bare(0.010, now=0.0)
        toll.observed(0.011, known=0.001)
    toll.observed(5.0, known=0.001)
    assert toll.observed(0.011, known=0.001) == pytest.approx(0.001)
