"""Small things to train on, the same in every process."""

from __future__ import annotations

import random
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
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(64, CLASSES),
        )


def engine(model: nn.Module | NodeGraph | None = None, **options: Any) -> TrainingEngine:
    """An engine for the task, on the CPU."""
    settings: dict[str, Any] = {"epochs": 2, "batch_size": 16, "device": "cpu", **options}
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
