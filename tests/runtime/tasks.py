"""Small things to train on, the same in every process."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from pnne_nb.graph.document import NodeGraph
from pnne_nb.runtime.engine import TrainingEngine

EXAMPLES = 96
CLASSES = 4


def images(seed: int = 1) -> tuple[Tensor, Tensor]:
    """Noisy pictures ``[96, 1, 6, 6]`` of four classes, and the classes."""
    generator = torch.Generator().manual_seed(seed)
    classes = torch.randint(0, CLASSES, (EXAMPLES,), generator=generator)
    pictures = torch.randn(EXAMPLES, 1, 6, 6, generator=generator)
    for index, row in enumerate(classes.tolist()):
        pictures[index, 0, row] += 2.0
    return pictures, classes


def network() -> nn.Sequential:
    """A small CNN with everything that makes resuming hard: batch norm and dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(64, CLASSES)
        )


def engine(model: nn.Module | NodeGraph | None = None, **options: Any) -> TrainingEngine:
    """An engine for the task, on the CPU."""
    settings: dict[str, Any] = {"loss": "CrossEntropyLoss", "epochs": 2, "batch_size": 16, "device": "cpu", **options}
    data = settings.pop("train_data", None)
    return TrainingEngine(network() if model is None else model, images() if data is None else data, **settings)


def picture_graph(out_features: int = CLASSES) -> NodeGraph:
    """The task's network as a graph."""
    graph = NodeGraph(name="lenet")
    graph.add("Input", name="x", shape=("N", 1, 6, 6))
    graph.add("Conv2d", name="conv1", in_channels=1, out_channels=4, kernel_size=3)
    graph.add("ReLU", name="relu1")
    graph.add("Flatten", name="flat")
    graph.add("Linear", name="fc", in_features="auto", out_features=out_features)
    graph.add("Output", name="y")
    for source, target in [("x", "conv1"), ("conv1", "relu1"), ("relu1", "flat"), ("flat", "fc"), ("fc", "y")]:
        graph.connect(source, target)
    return graph


class Noisy(Dataset[tuple[Tensor, Tensor]]):
    """The task's pictures, with noise from every generator that datasets use."""

    def __init__(self) -> None:
        self.pictures, self.classes = images()

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        noise = torch.rand(()).item() + random.random() + float(np.random.rand())  # noqa: NPY002  datasets do
        return self.pictures[index] + 0.1 * noise, self.classes[index]


def noise(kind: str) -> float:
    """A number from the global generator of that kind."""
    match kind:
        case "torch":
            return torch.rand(()).item()
        case "python":
            return random.random() + random.gauss(0, 1)
        case "numpy":
            return float(np.random.rand() + np.random.randn())  # noqa: NPY002  what models and losses use
        case _:
            raise ValueError(kind)


class Drawing(nn.Module):
    """The task's network, whose forward pass draws from one global generator: in training, from some call on.

    Args:
        kind: Of the generator.
        after: Calls before the first that draws.
    """

    def __init__(self, kind: str, after: int = 0) -> None:
        super().__init__()
        self.net = network()
        self.kind = kind
        self.after = after
        self.calls: Tensor
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.net(x)
        self.calls += self.training
        if self.training and self.calls > self.after:
            scores = scores * (1 + 0.1 * noise(self.kind))
        return scores


class DrawingLoss:
    """Cross entropy with noise from one global generator: in some steps only, if `seldom`."""

    def __init__(self, kind: str, *, seldom: bool = False) -> None:
        self.kind = kind
        self.seldom = seldom

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(output, target)
        if self.seldom and int(target.sum()) % 4:
            return loss
        return loss * (1 + 0.1 * noise(self.kind))


class DrawingMetric:
    """A mean of numbers from one global generator, as a metric: it moves what the next step draws."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.reset()

    def reset(self) -> None:
        """Begin an epoch."""
        self.total, self.count = 0.0, 0

    def update(self, output: Tensor, target: Tensor) -> None:
        """Count a batch."""
        del output, target
        self.total, self.count = self.total + noise(self.kind), self.count + 1

    def compute(self) -> float:
        """The mean, with more noise."""
        return self.total / self.count + noise(self.kind)

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint in the middle of an epoch."""
        return {"total": self.total, "count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on counting."""
        self.total, self.count = state["total"], state["count"]


def drawing_step(kind: str) -> Any:
    """A step function that draws from one global generator."""

    def step(model: nn.Module, batch: Any) -> Tensor:
        x, y = batch
        return nn.functional.cross_entropy(model(x + 0.1 * noise(kind)), y)

    return step


class DrawingData(Dataset[tuple[Tensor, Tensor]]):
    """The task's pictures, with noise from one global generator."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pictures, self.classes = images()

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.pictures[index] + 0.1 * noise(self.kind), self.classes[index]


_PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "a forward pass": lambda kind: {"model": Drawing(kind)},
    "a forward pass, from the second epoch on": lambda kind: {"model": Drawing(kind, after=8)},
    "a loss": lambda kind: {"loss": DrawingLoss(kind)},
    "a loss, in some steps": lambda kind: {"loss": DrawingLoss(kind, seldom=True)},
    "a loss, with validation": lambda kind: {"loss": DrawingLoss(kind), "val_data": images(2)},
    "a step function": lambda kind: {"step_function": drawing_step(kind)},
    "data": lambda kind: {"train_data": DrawingData(kind)},
    "a metric": lambda kind: {"loss": DrawingLoss(kind), "metrics": [DrawingMetric(kind)]},
}
FORMS: dict[str, Callable[[], dict[str, Any]]] = {
    f"{kind}: {place}": functools.partial(make, kind)
    for kind in ("torch", "python", "numpy")
    for place, make in _PLACES.items()
}
"""Arguments of `engine` for trainings that draw from the global generators, by kind and place."""


def trained_losses(form: str, **options: Any) -> list[float]:
    """The losses of a training in that form."""
    training = engine(**FORMS[form](), **options)
    assert training.start().wait(60)
    losses: list[float] = training.history["loss"].tolist()
    return losses
