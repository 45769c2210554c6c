"""What a training tells without being asked: a loss that explodes, gradients that vanish, data that fails."""

from __future__ import annotations

import os
import signal
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from pnne_nb.errors import TrainingError
from pnne_nb.frames import AnomalyFrame, StepFrame
from pnne_nb.runtime.reports import Reports
from pnne_nb.runtime.trend import GradientTrend, LossTrend
from tests.runtime.tasks import engine


def test_an_explosion_is_said_once_and_again_after_a_recovery() -> None:
    trend = LossTrend()
    losses = [1.0] * 20 + [9.0] * 200 + [0.5] * 200 + [9.0] * 200
    said = [frame for step, loss in enumerate(losses, 1) if (frame := trend.observe(step, loss)) is not None]
    assert [frame.kind for frame in said] == ["divergence"] * 2
    assert "The loss has exploded: about 3.12 at step 26, after 1 in the first 20 steps." in said[0].message


def test_a_noisy_loss_and_a_negative_one_are_no_explosion() -> None:
    trend, negative = LossTrend(), LossTrend()
    assert all(trend.observe(step, 1.0 + step % 2) is None for step in range(500))
    assert all(negative.observe(step, -1000.0 + step) is None for step in range(500))


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
        cast(nn.Linear, dead[1]).bias.fill_(-100.0)
    trained = engine(model=dead, epochs=5)
    trained.start()
    assert trained.wait(60)
    (found,) = trained.history.anomalies
    assert found.kind == "vanishing-gradients"
    assert "The gradients have vanished: their norm is about 0 at step 20, after 0 at first" in found.message
    assert trained.history.summary()["anomalies"] == [f"step 20: {found.message}"]


def test_a_training_tells_of_it() -> None:
    # The gradient points the wrong way.
    trained = engine(optimizer=("SGD", {"lr": 0.1, "maximize": True}), epochs=8)
    trained.start()
    assert trained.wait(60)
    assert trained.history.anomalies[0].kind == "divergence"


def test_a_divergence_that_a_probe_has_found_is_not_told_again() -> None:
    reports = Reports()
    found = AnomalyFrame(step=40, kind="divergence", message="The loss has grown from 1 to 2.")
    for step in range(1, 200):
        if step == 40:
            reports.publish([found])
        reports.stepped(StepFrame(step, 1, float(step), 0.1, 8, 0.0))
    assert reports.history.anomalies == [found]


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
