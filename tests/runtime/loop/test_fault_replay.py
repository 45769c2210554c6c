"""The small version of ``scripts/fault_trials.py``: one fault of every kind, in turn in each kind of model."""

from __future__ import annotations

import pytest

from scripts.fault_trials import Trial, judge, trials

ALL = {trial.name: trial for trial in trials(105)}
"""The first round; a trial makes its model when it runs."""
CHOSEN = [name for index, name in enumerate(ALL) if index % 3 == 0 or "drawn" in name]


@pytest.mark.parametrize("name", CHOSEN)
def test_step_node_operation_line_and_example_are_named(name: str) -> None:
    trial: Trial = ALL[name]
    verdict, told = judge(trial, back=2)
    assert all(answer is not False for answer in verdict), f"{verdict} of {trial}: {told}"
