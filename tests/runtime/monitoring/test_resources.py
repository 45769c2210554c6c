"""Where the time goes is told of the last few seconds, not of whatever was done last."""

from __future__ import annotations

import pytest
from torch import nn

from pnne_nb.runtime.monitoring.resources import ResourceMonitor, Stages


def test_a_validation_at_the_end_is_not_all_that_the_time_went_to() -> None:
    stages = Stages()
    monitor = ResourceMonitor(nn.Linear(1, 1), stages)
    stages.seconds["forward"] += 0.5
    monitor.look(1)
    stages.seconds["validation"] += 0.5
    _, times = monitor.look(1)
    assert times.shares["forward"] == times.shares["validation"] == pytest.approx(0.5)


def test_what_is_long_past_counts_no_more() -> None:
    stages = Stages()
    monitor = ResourceMonitor(nn.Linear(1, 1), stages)
    stages.seconds["data"] += 100.0
    monitor.look(1)
    for step in range(2, 30):
        stages.seconds["forward"] += 0.5
        _, times = monitor.look(step)
    assert times.shares["data"] == 0.0
    assert times.shares["forward"] == 1.0


def test_looks_are_half_a_second_apart() -> None:
    monitor = ResourceMonitor(nn.Linear(1, 1), Stages())
    assert [monitor.due(now) for now in (0.0, 0.4, 0.5, 0.9, 1.1)] == [True, False, True, False, True]
