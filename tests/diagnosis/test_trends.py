"""What a training tells without being asked: a loss that explodes, gradients that vanish, data that fails."""

from __future__ import annotations

import math
import os
import signal
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from pnne_nb.diagnosis.diagnose import diagnose
from pnne_nb.diagnosis.trends import GradientTrend, LossTrend, Trends
from pnne_nb.errors import TrainingError
from pnne_nb.runtime.monitoring.reporter import Reports
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, StepFrame
from tests.runtime.tasks import engine, images, network


def test_an_explosion_is_said_once_and_again_after_a_recovery() -> None:
    trend = LossTrend()
    losses = [1.0] * 20 + [9.0] * 200 + [0.5] * 200 + [9.0] * 200
    said = [frame for step, loss in enumerate(losses, 1) if (frame := trend.observe(step, loss, 8)) is not None]
    assert [frame.kind for frame in said] == ["divergence"] * 2
    assert "The loss has exploded: about 3.12 at step 26, after 1 in the first 20 steps." in said[0].message


def test_a_validation_that_is_no_number_is_said_once_until_it_is_one_again() -> None:
    trends = Trends()
    judged = [1.0, math.nan, None, math.inf, 1.0, math.nan]
    frames = [EpochFrame(epoch, epoch, {} if loss is None else {"val_loss": loss}) for epoch, loss in enumerate(judged)]
    said = [trends.judge(frame) for frame in frames]
    assert [None if one is None else one.kind for one in said] == [
        None,
        "nan-validation",
        *[None] * 3,
        "nan-validation",
    ]


def test_what_only_the_validation_meets_is_told() -> None:
    model = network()
    model.get_buffer("1.running_mean")[0] = torch.nan
    trained = engine(model, val_data=images(2), epochs=1)
    trained.start()
    assert trained.wait(60)
    (said,) = trained.history.anomalies
    assert "The validation loss after step 6 is nan" in said.message
    assert "running statistics of batch normalisation" in (said.hint or "")


def test_a_noisy_loss_and_a_negative_one_are_no_explosion() -> None:
    trend, negative = LossTrend(), LossTrend()
    assert all(trend.observe(step, 1.0 + step % 2, 1) is None for step in range(500))
    assert all(negative.observe(step, -1000.0 + step, 8) is None for step in range(500))


@pytest.mark.parametrize("rate", [30.0, 100.0, 300.0, 1e5])
def test_an_explosion_from_the_first_update_on_is_told(rate: float) -> None:
    # Batch norm keeps the loss finite: it leaps to 1e15, and stays at a hundred times what it was.
    trained = engine(optimizer=("SGD", {"lr": rate}), epochs=20)
    trained.start()
    assert trained.wait(60)
    [found] = [frame for frame in trained.history.anomalies if frame.kind == "divergence"]
    assert 11 <= found.step <= 60
    assert "after 1.51 at first" in found.message
    assert diagnose(trained)[0].kind == "divergence"


def chance(seed: int, batch: int) -> list[float]:
    """Losses of a model that has nothing to learn: single ones scatter over several orders of magnitude."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.empty(400, batch).exponential_(generator=generator)
    return [float(loss) for loss in drawn.mean(1)]


@pytest.mark.parametrize("batch", [2, 8, 64])
def test_what_scatters_by_chance_is_no_explosion(batch: int) -> None:
    for seed in range(100):
        trend = LossTrend()
        assert all(trend.observe(step, loss, batch) is None for step, loss in enumerate(chance(seed, batch), 1))


@pytest.mark.parametrize("optimizer", [("SGD", {"lr": 1.0}), ("AdamW", {"lr": 0.1}), ("RMSprop", {"lr": 0.03})])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_a_training_that_learns_with_large_steps_is_no_explosion(optimizer: Any, batch_size: int) -> None:
    trained = engine(optimizer=optimizer, batch_size=batch_size, epochs=3, model=network().eval())
    trained.start()
    assert trained.wait(60)
    assert "divergence" not in {frame.kind for frame in trained.history.anomalies}


def said(norms: list[float], *, learned: bool = False) -> list[str]:
    trend = GradientTrend()
    found = [trend.observe(step, norm, learned=learned) for step, norm in enumerate(norms, 1)]
    return [frame.kind for frame in found if frame is not None]


def test_gradients_that_explode_or_vanish_are_told_once() -> None:
    assert said([1.0] * 20 + [1e5] * 50) == ["exploding-gradients"]
    assert said([1.0] * 20 + [1e-9] * 500) == ["vanishing-gradients"]
    assert said([0.0] * 30) == ["vanishing-gradients"]
    assert said([1.0] * 20 + [1e-9] * 500, learned=True) == []
    assert said([1.0 + step % 3 for step in range(500)]) == []


def test_a_network_that_died_is_told_of() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        dead = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 4, bias=False))
    with torch.no_grad():
        cast("nn.Linear", dead[1]).bias.fill_(-100.0)
    trained = engine(model=dead, epochs=5)
    trained.start()
    assert trained.wait(60)
    died, vanished = trained.history.anomalies
    assert (died.kind, died.node, died.step) == ("dead-relu", "2", 10)
    assert (vanished.kind, vanished.step) == ("vanishing-gradients", 10)
    assert trained.history.summary()["anomalies"][0] == f"step 10: {died.message}"
    assert [finding.kind for finding in diagnose(trained)] == ["dead-relu", "vanishing-gradients"]


def test_a_training_tells_of_it() -> None:
    # The gradient points the wrong way.
    trained = engine(optimizer=("SGD", {"lr": 0.1, "maximize": True}), epochs=8)
    trained.start()
    assert trained.wait(60)
    assert "divergence" in {frame.kind for frame in trained.history.anomalies}
    assert diagnose(trained)[0].kind == "divergence"


def test_a_divergence_that_a_probe_has_found_is_not_told_again() -> None:
    reports = Reports()
    found = AnomalyFrame(step=10, kind="divergence", message="The loss has grown from 1 to 2.")
    for step in range(1, 200):
        if step == 10:
            reports.publish([found])
        reports.stepped(StepFrame(step, 1, 10.0 + step, 0.1, 8, 0.0))
    assert [frame for frame in reports.history.anomalies if frame.kind == "divergence"] == [found]


class Killed(Dataset[tuple[Tensor, int]]):
    """Its worker process dies far into the data, as one does that needs too much memory."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 300:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(1, 6, 6), index % 4


def test_a_worker_that_dies_is_told_of_and_the_kernel_lives_on() -> None:
    trained = engine(train_data=Killed(), shuffle=False, batch_size=50, num_workers=1, epochs=1)
    trained.start()
    with pytest.raises(TrainingError, match=r"A worker process that loads the data has died \(killed by SIGKILL\)"):
        trained.wait(60)
    assert trained.state == "failed"
    found = trained.history.anomalies[-1]
    assert (found.kind, found.step) == ("data-failed", trained.progress.step + 1)
    assert "A worker process that loads the data has died" in found.message


class Torn(Dataset[tuple[Tensor, int]]):
    """One unreadable item far into the data."""

    def __len__(self) -> int:
        return 5000

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 4711:
            raise OSError("item 4711 cannot be read")
        return torch.ones(1, 6, 6), index % 4


@pytest.mark.parametrize("workers", [0, 2])
def test_data_that_fails_at_item_4711_is_told_and_the_training_can_go_on_elsewhere(workers: int) -> None:
    trained = engine(train_data=Torn(), shuffle=False, batch_size=500, num_workers=workers, epochs=1)
    trained.start()
    with pytest.raises(OSError, match="item 4711 cannot be read"):
        trained.wait(60)
    assert trained.progress.step == 9
    found = trained.history.anomalies[-1]
    assert (found.kind, found.step) == ("data-failed", 10)
    assert found.message.startswith("The data failed while fetching batch 10 of epoch 1: OSError:")
