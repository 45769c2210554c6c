"""Lazy layers get their weights from the first example."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pnne_nb.errors import TrainingError
from tests.runtime.tasks import engine, images


def lazy() -> nn.Sequential:
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.Dropout(), nn.LazyLinear(4))


@pytest.mark.parametrize("loaded", [False, True])
def test_the_first_example_makes_the_weights_and_changes_nothing_else(loaded: bool) -> None:
    data = DataLoader(TensorDataset(*images()), batch_size=16) if loaded else images()
    before = torch.random.get_rng_state()
    several = [engine(lazy(), train_data=data, seed=3) for _ in range(2)]
    assert torch.equal(torch.random.get_rng_state(), before)
    model = several[0].module
    assert model.get_parameter("4.weight").shape == (4, 64)
    assert model.get_buffer("1.num_batches_tracked").item() == 0
    assert all(module.training for module in model.modules())
    for trained in several:
        trained.start()
        assert trained.wait(60)
    assert several[0].history["loss"].tolist() == several[1].history["loss"].tolist()


def test_what_cannot_be_called_here_is_called_by_its_owner() -> None:
    with pytest.raises(TrainingError, match="only the step function knows how to call it: call the model with a batch"):
        engine(lazy(), step_function=lambda model, batch: model(batch[0]).sum())
    stream = DataLoader(TensorDataset(*images()), batch_sampler=[[0, 1], [2, 3]])
    with pytest.raises(TrainingError, match="a stream is read only once: call the model"):
        engine(lazy(), train_data=stream)
