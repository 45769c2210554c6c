"""A training in a process of its own is the one in a thread, bit for bit, whatever it is made of."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from pnne_nb.catalog import register_node
from pnne_nb.runtime.engine import TrainingEngine
from tests.runtime import tasks
from tests.runtime.distributed import groups
from tests.runtime.training_process.same import assert_same


def _drawing_step(model: nn.Module, batch: Any) -> dict[str, Any]:
    """Draws from every generator."""
    pictures, classes = batch
    noise = torch.rand(()).item() + random.random() + float(np.random.rand())  # noqa: NPY002  as people do
    output = model(pictures + 0.1 * noise)
    return {"loss": nn.functional.cross_entropy(output, classes), "noise": noise, "output": output, "target": classes}


class _Stream(IterableDataset[tuple[Tensor, Tensor]]):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        pictures, classes = tasks.images()
        yield from ((picture + 0.1 * torch.rand(()), label) for picture, label in zip(pictures, classes, strict=True))


def _plain(**options: Any) -> Callable[[], TrainingEngine]:
    return lambda: tasks.engine(**options)


def _lbfgs() -> TrainingEngine:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, tasks.CLASSES))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.01)
    return tasks.engine(model, optimizer=("LBFGS", {"lr": 0.1, "max_iter": 4}))


def _adversaries() -> TrainingEngine:
    """Two optimizers, one of which only the step function knows, and a loss that knows the model."""
    model = tasks.network()
    second = torch.optim.Adam(model[5].parameters(), lr=1e-3)

    def step(trained: nn.Module, batch: Any) -> Tensor:
        assert trained is model
        loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        if torch.is_grad_enabled():
            second.zero_grad()
            torch.autograd.backward(loss, retain_graph=True)
            second.step()
            loss = nn.functional.cross_entropy(model(batch[0]), batch[1])
        return loss

    return tasks.engine(model, step_function=step, stateful={"second": second}, metrics=())


def _registered() -> TrainingEngine:
    @register_node(category="Custom", name="Halved", replace=True)
    class Halved(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x / 2

    graph = tasks.picture_graph()
    graph.add("Halved", name="halved")
    graph.disconnect("fc.output", "y.input")
    graph.connect("fc", "halved")
    graph.connect("halved", "y")
    return tasks.engine(graph)


TRAININGS: dict[str, Callable[[], TrainingEngine]] = {
    "dropout and batch norm": _plain(val_data=tasks.images(2)),
    "of a graph": lambda: tasks.engine(tasks.picture_graph()),
    "of a registered node": _registered,
    "drawn": groups.drawn_engine,
    "data that draws": _plain(train_data=tasks.Noisy()),
    "workers": _plain(train_data=tasks.Noisy(), num_workers=2),
    "a stream": _plain(train_data=DataLoader(_Stream(), batch_size=16)),
    "a loader with an order of its own": lambda: tasks.engine(
        train_data=DataLoader(
            TensorDataset(*tasks.images()), batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(3)
        )
    ),
    "LBFGS": _lbfgs,
    "a schedule of steps": _plain(
        optimizer=("SGD", {"lr": 0.1, "momentum": 0.9}), scheduler=("OneCycleLR", {"max_lr": 0.1}, "step")
    ),
    "a plateau": _plain(
        val_data=tasks.images(2),
        epochs=4,
        scheduler=("ReduceLROnPlateau", {"patience": 0}),
        validate_every=(4, "steps"),
    ),
    "the best weights": _plain(val_data=tasks.images(2), restore_best_weights=True, monitor=("train_loss", "max")),
    "a step function that draws": _plain(step_function=_drawing_step),
    "a loss of the notebook": _plain(loss=lambda output, target: nn.functional.cross_entropy(output, target) * 2),
    "two optimizers": _adversaries,
    "parts": _plain(accumulate=2, grad_clip=0.1, parameter_groups={"*.bias": {"weight_decay": 0.0}}),
    "deterministic": _plain(deterministic=True),
    "yes and no in whole numbers": lambda: TrainingEngine(
        nn.Sequential(nn.Flatten(), nn.LazyLinear(1)),
        (tasks.images()[0], tasks.images()[1] % 2),
        (tasks.images(2)[0], tasks.images(2)[1] % 2 == 1),
        epochs=2,
        device="cpu",
    ),
    "double precision": lambda: tasks.engine(
        tasks.network().double(), train_data=(tasks.images()[0].double(), tasks.images()[1])
    ),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_a_process_makes_the_same_numbers_as_a_thread(name: str) -> None:
    thread, process = TRAININGS[name](), TRAININGS[name]()
    thread.start().wait()
    assert process.start(process=True).wait(groups.SECONDS)
    assert groups.state_of(process) == "finished"
    assert_same(thread, process)
