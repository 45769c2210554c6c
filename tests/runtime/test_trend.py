"""What a training tells without being asked: a loss that explodes, data that fails."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from pnne_nb.runtime.trend import LossTrend
from tests.runtime.tasks import engine


def test_an_explosion_is_said_once_and_again_after_a_recovery() -> None:
    trend = LossTrend()
    losses = [1.0] * 20 + [9.0] * 200 + [0.5] * 200 + [9.0] * 200
    said = [frame for step, loss in enumerate(losses, 1) if (frame := trend.observe(step, loss)) is not None]
    assert [frame.kind for frame in said] == ["loss-explosion"] * 2
    assert "The loss has exploded: about 3.12 at step 26, after 1 in the first 20 steps." in said[0].message


def test_a_noisy_loss_and_a_negative_one_are_no_explosion() -> None:
    trend, negative = LossTrend(), LossTrend()
    assert all(trend.observe(step, 1.0 + step % 2) is None for step in range(500))
    assert all(negative.observe(step, -1000.0 + step) is None for step in range(500))


def test_a_training_tells_of_it() -> None:
    # The gradient points the wrong way.
    trained = engine(optimizer=("SGD", {"lr": 0.1, "maximize": True}), epochs=8)
    trained.start()
    assert trained.wait(60)
    assert trained.history.anomalies[0].kind == "loss-explosion"


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
