"""The search for a learning rate, which leaves no trace in the training."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import IterableDataset, TensorDataset

import pnne_nb as pn

GENERATOR = torch.Generator().manual_seed(4)
X = torch.randn(64, 6, generator=GENERATOR)
AMOUNTS = X @ torch.randn(6, 1, generator=GENERATOR)
CLASSES = (AMOUNTS[:, 0] > 0).long()


def _net(outputs: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, outputs))


def _engine(data: Any = (X, CLASSES), outputs: int = 2, **options: Any) -> pn.TrainingEngine:
    return pn.TrainingEngine(_net(outputs), data, batch_size=8, epochs=4, device="cpu", **options)


def _state(engine: pn.TrainingEngine) -> Any:
    with engine.paused() as model:
        return copy.deepcopy(
            (
                {name: value.tolist() for name, value in model.state_dict().items()},
                [None if each.grad is None else each.grad.tolist() for each in model.parameters()],
                [module.training for module in model.modules()],
                [len(module._forward_hooks) for module in model.modules()],
                str(engine.recipe.optimizer.state_dict()),
                {name: engine.history[name].tolist() for name in ("loss", "learning_rate")},
                engine.progress.step,
                torch.get_rng_state().tolist(),
                random.getstate(),
                str(np.random.get_state()),  # noqa: NPY002  # the generator that models use
            )
        )


@pytest.mark.parametrize(
    ("data", "outputs", "options"),
    [
        ((X, CLASSES), 2, {}),
        (TensorDataset(X, CLASSES), 2, {"optimizer": ("SGD", {"lr": 0.1, "momentum": 0.9})}),
        ((X, AMOUNTS), 1, {"scheduler": ("StepLR", {"step_size": 1}), "optimizer": torch.optim.Adam}),
    ],
)
def test_the_search_leaves_no_trace_and_the_next_losses_are_the_same(
    data: Any, outputs: int, options: Any, request: pytest.FixtureRequest
) -> None:
    searched, other = (_engine(data, outputs, **options) for _ in range(2))
    request.addfinalizer(searched.stop)
    request.addfinalizer(other.stop)
    for engine in (searched, other):
        engine.step(3)
    before = _state(searched)
    found = pn.find_learning_rate(searched, steps=40)
    assert _state(searched) == before
    for engine in (searched, other):
        engine.step(20)
    assert searched.history["loss"].tolist() == other.history["loss"].tolist()
    low, high = found.spread
    assert low <= found.suggestion <= high
    assert 1e-6 < found.suggestion < 10
    assert len(found.losses) == 3
    assert f"engine.set_optimizer(lr={found.suggestion:.2g})" in repr(found)
    assert "over 3 seeds" in repr(found)
    assert list(found.to_frame()) == ["seed 0", "seed 1", "seed 2"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_search_that_is_interrupted_or_fails_leaves_no_trace(error: type[BaseException]) -> None:
    calls = []

    def loss(output: Tensor, target: Tensor) -> Tensor:
        calls.append(1)
        if len(calls) == 20:
            raise error
        return nn.functional.cross_entropy(output, target)

    engine = _engine(loss=loss)
    engine.step(3)
    before = _state(engine)
    with pytest.raises(error):
        pn.find_learning_rate(engine, steps=40)
    assert len(calls) == 20
    assert _state(engine) == before
    engine.stop()


def test_the_suggestion_is_where_the_loss_falls_and_the_same_each_time() -> None:
    engine = _engine((X, AMOUNTS), 1, optimizer=("SGD", {"lr": 1.0}))
    found = pn.find_learning_rate(engine)
    again = pn.find_learning_rate(engine)
    assert found.suggestion == again.suggestion
    assert min(map(len, found.losses)) < 100
    shortest = min(map(len, found.losses))
    assert 1e-4 < found.suggestion < found.rates[shortest - 1]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(zip(X, CLASSES, strict=True))


def test_what_cannot_be_searched_is_told() -> None:
    with pytest.raises(pn.ArgumentError, match="engine must be a TrainingEngine"):
        pn.find_learning_rate(_net(2))  # type: ignore[arg-type]
    engine = _engine()
    with pytest.raises(pn.ArgumentError, match="the smaller one first"):
        pn.find_learning_rate(engine, low=1.0, high=0.1)
    with pytest.raises(pn.ArgumentError, match="Write low=1e-7"):
        pn.find_learning_rate(engine, start_lr=1e-5)  # type: ignore[call-arg]
    with pytest.raises(pn.TrainingError, match="a stream, which is read only once"):
        pn.find_learning_rate(_engine(Stream(), loss="CrossEntropyLoss"))
    with pytest.raises(pn.TrainingError, match="by a step function"):
        pn.find_learning_rate(_engine(step_function=lambda model, batch: model(batch[0]).sum()))
    with pytest.raises(pn.TrainingError, match="falls at no learning rate"):
        pn.find_learning_rate(_engine(loss=lambda output, _: output.sum() * float("nan")))
