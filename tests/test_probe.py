from __future__ import annotations

import pytest

from pnne_nb.probe import Cadence


def test_a_cheap_observation_comes_at_the_rate_asked_for() -> None:
    cadence = Cadence(hz=10)
    assert cadence.due(0.0)
    cadence.spent(1e-6, 0.0)
    assert not cadence.due(0.09)
    assert cadence.due(0.1)


def test_a_costly_observation_comes_as_often_as_the_budget_allows() -> None:
    cadence = Cadence(hz=10, budget=0.02)
    assert cadence.due(0.0)
    cadence.spent(0.01, 0.0)
    assert not cadence.due(0.49)
    assert cadence.due(0.5)
    assert cadence.share(0.5) == pytest.approx(0.02)


def test_nothing_is_observed_at_zero_hertz() -> None:
    assert not Cadence(hz=0).due(0.0)


def test_no_share_before_the_first_step() -> None:
    assert Cadence().share(1.0) == 0.0


@pytest.mark.parametrize("budget", [0.0, -1.0, 1.5])
def test_a_budget_is_a_share(budget: float) -> None:
    with pytest.raises(ValueError, match="budget must be a share of the running time"):
        Cadence(budget=budget)
