"""The control bar's facts come from frames."""

from __future__ import annotations

import json
import math

from pnne_nb.telemetry.frames import (
    CheckpointFrame,
    CostFrame,
    HistogramFrame,
    ProgressFrame,
    StateFrame,
    StepFrame,
)
from pnne_nb.widgets.dashboard.status import Status


def test_progress_and_cost() -> None:
    status = Status()
    status.take(StepFrame(7, 1, 0.5, 0.01, 64, 1.0))
    status.take(ProgressFrame(2, 5, 3, 22, 25, 100.0, 12.5))
    status.take(CostFrame(25, 0.01, 9.9, 0.003))
    shown = status.to_json()
    assert (shown["epoch"], shown["batch"], shown["batches"], shown["step"]) == (2, 3, 22, 25)
    assert (shown["stepsPerSecond"], shown["secondsLeft"], shown["learningRate"]) == (100.0, 12.5, 0.01)
    assert (shown["cost"], shown["costMargin"], shown["framesPerSecond"]) == (0.01, 0.003, 9.9)
    status.take(CostFrame(50, 0.01, 9.9))
    assert status.to_json()["costMargin"] is None


def test_the_latest_checkpoint() -> None:
    status = Status()
    status.take(CheckpointFrame(7, "run/000001-step-7.ckpt"))
    status.take(CheckpointFrame(9, "run/000002-step-9.ckpt"))
    assert status.to_json()["saved"] == {"step": 9, "path": "run/000002-step-9.ckpt"}


def test_a_failure_has_a_node_until_training_goes_on() -> None:
    status = Status()
    status.take(StateFrame("failed", error="RuntimeError: no", node="block.conv1"))
    assert (status.error, status.node, status.ended) == ("RuntimeError: no", "block.conv1", True)
    status.take(StateFrame("running"))
    assert (status.error, status.node, status.ended) == (None, None, False)


def test_what_json_cannot_say_is_left_out() -> None:
    status = Status()
    status.take(StepFrame(1, 1, math.nan, math.nan, 64, 1.0))
    status.take(ProgressFrame(1, 5, 3, None, 25, math.inf, math.nan))
    status.take(CostFrame(1, math.nan, math.inf))
    json.dumps(status.to_json(), allow_nan=False)
    assert status.seconds_left is status.cost is status.learning_rate is None


def test_frames_for_the_plots_change_nothing() -> None:
    status = Status()
    status.take(HistogramFrame(1, "fc", "activations", 0.0, 1.0, (1, 2), 3, 3))
    assert status == Status()
