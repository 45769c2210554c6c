from __future__ import annotations

import pytest

from pnne_nb.probe import Cadence, Toll


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
