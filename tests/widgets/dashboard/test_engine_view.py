"""What a dashboard reads off its engine: the picture that stays, and what it says."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.telemetry.frames import CheckpointFrame, CostFrame, HistogramFrame, ProgressFrame, StateFrame, StepFrame
from pnne_nb.widgets.dashboard import live_dashboard
from pnne_nb.widgets.dashboard.engine_view import Status, keep_picture
from pnne_nb.widgets.host.static_picture import KeptPicture
from tests.widgets.shown import Shown


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    return Shown(monkeypatch)


def data() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(40, 4), torch.randint(3, (40,))


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def test_the_picture_of_a_training_has_its_last_numbers_and_what_failed(shown: Shown) -> None:
    engine = pn.TrainingEngine(net(), data(), epochs=2, loss="CrossEntropyLoss")
    widget = pn.TrainingDashboard(engine)
    widget._ipython_display_()
    assert "Training idle: epoch 1 of 2" in shown.bundles[1]["text/html"]
    engine.start().wait()
    [*_, last] = shown.updates
    loss = engine.history.summary()["loss"]
    assert "Training finished: epoch 2 of 2" in last["text/html"]
    assert f"loss: {loss:.4g} in the last batch" in last["text/html"]
    widget.close()
    x, y = data()
    failing = pn.TrainingEngine(net(), (x, y + 7), epochs=2, loss="CrossEntropyLoss")
    widget = pn.TrainingDashboard(failing)
    widget._ipython_display_()
    failing.start()
    with pytest.raises(pn.PnneError):
        failing.wait()
    assert "Training failed" in shown.updates[-1]["text/html"]
    widget.close()


def test_the_picture_of_a_training_that_is_left_alone_is_renewed_and_says_how_to_go_on(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now = [1000.0]
    monkeypatch.setattr(live_dashboard, "monotonic", lambda: now[0])
    engine = pn.TrainingEngine(net(), data(), epochs=3, loss="CrossEntropyLoss", checkpoint_dir=tmp_path)
    widget = pn.TrainingDashboard(engine)
    widget._ipython_display_()
    widget.take([StateFrame("running")])
    for seconds in (0.0, 30.0, 61.0):
        now[0] += seconds
        widget.draw(0, watched=False)
        shown.run_waiting()
    assert len(shown.updates) == 2, "one as it starts, and one a minute later"
    said = shown.updates[-1]["text/html"]
    assert f"pn.TrainingEngine.resume_from({str(tmp_path)!r}, train_data=...)" in html.unescape(said)
    widget.close()


def test_a_picture_that_cannot_be_drawn_does_not_fail_the_training(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = pn.TrainingEngine(net(), data(), epochs=1, loss="CrossEntropyLoss")
    widget = pn.TrainingDashboard(engine)
    widget._ipython_display_()
    monkeypatch.setattr(KeptPicture, "redraw", lambda _: 1 / 0)
    engine.start().wait()
    assert engine.state == "finished"
    assert "The picture of the training was not drawn." in caplog.text
    widget.close()


def test_a_pause_draws_the_picture_when_it_lasts_and_a_picture_that_is_gone_is_left_alone(shown: Shown) -> None:
    picture = KeptPicture(lambda: "it", lambda: "drawn")
    picture.show_under(SimpleNamespace(_repr_mimebundle_=lambda: None))
    keep_picture(picture, StateFrame("paused"))
    keep_picture(picture, StateFrame("running"))
    assert len(shown.waiting) == 1
    assert shown.updates == []
    picture.close()
    keep_picture(picture, StateFrame("finished"))
    assert shown.updates == []


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
