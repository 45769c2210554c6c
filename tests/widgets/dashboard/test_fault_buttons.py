"""A training that a NaN has ended offers what to do about it, in the dashboard."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from pnne_nb.errors import TrainingError
from pnne_nb.protocol.control_messages import Command, CommandMessage
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.widgets.dashboard.dashboard import TrainingDashboard
from pnne_nb.widgets.plots.curves import Curve, CurveTable


@pytest.fixture
def failed() -> Iterator[TrainingDashboard]:
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(320, 4, generator=draws)
    x[245, 2] = torch.nan
    engine = TrainingEngine(
        nn.Linear(4, 3), (x, torch.arange(320) % 3), epochs=1, batch_size=8, shuffle=False, device="cpu"
    )
    dashboard = TrainingDashboard(engine)
    engine.start()
    with pytest.raises(TrainingError, match="is NaN"):
        engine.wait(60)
    dashboard._draw_status(0)
    yield dashboard
    engine.stop()
    dashboard.close()


def press(dashboard: TrainingDashboard, command: Command) -> None:
    dashboard._answer(CommandMessage(1, command))
    for thread in threading.enumerate():
        if thread.name in ("pnne-button", "pnne-rewind"):
            thread.join(60)


def test_what_can_be_done_is_offered(failed: TrainingDashboard) -> None:
    assert failed._bar.status["remedies"] == ["rewind", "batch", "skip"]
    assert "row 5, column 2 of batch 31 is NaN" in str(failed.engine.error)


def test_the_batch_is_shown_and_hidden(failed: TrainingDashboard) -> None:
    press(failed, "batch")
    assert "input[5]: " in failed._bar.status["batchText"]
    assert "245 of the training data" in failed._bar.status["batchText"]
    press(failed, "batch")
    assert failed._bar.status["batchText"] == ""


def test_going_back_leaves_nothing_to_remedy(failed: TrainingDashboard) -> None:
    press(failed, "rewind")
    assert failed.engine.progress.step == 10
    assert failed._bar.status["remedies"] == []


def test_without_the_batch_the_training_ends_well(failed: TrainingDashboard) -> None:
    press(failed, "skip")
    assert failed.engine.wait(60)
    assert failed.engine.progress.step == 39


def test_curves_follow_a_training_that_went_back() -> None:
    curve, table = Curve(), CurveTable(["a"])
    for step in (*range(1, 50), *range(30, 40)):
        curve.append(step, float(step))
        table.append(step, {"a": float(step)})
    assert curve.points()[0].tolist() == list(range(1, 40))
    assert table.table()[0].tolist() == list(range(1, 40))
