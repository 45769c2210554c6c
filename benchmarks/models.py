"""The models that the benchmarks train: a step of half a millisecond, of some ten, and of some fifty."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Made = tuple[nn.Module, Tensor, Tensor]
"""A model, inputs for many batches, and their classes."""


class Residual(nn.Module):
    """A block of a small ResNet."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else nn.Identity()
        self.relu2 = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Images `[n, inputs, h, w]` to `[n, outputs, h / stride, w / stride]`."""
        out = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(out + self.skip(x))  # type: ignore[no-any-return]  # torch types the call of a module as Any


def mlp() -> Made:
    """Half a millisecond a step: what is measured there is bookkeeping, so budgets leave it out."""
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    return net, torch.randn(4096, 64), torch.randint(0, 10, (4096,))


def cnn() -> Made:
    """Some 10 ms a step, 11 layers: a small CNN on handwritten digits."""
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    return net, torch.randn(2048, 1, 28, 28), torch.randint(0, 10, (2048,))


def resnet() -> Made:
    """Some 50 ms a step, 40 layers."""
    blocks = [Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 64, 1)]
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *blocks, head)
    return net, torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,))


class Attending(nn.Module):
    """A transformer over the rows of digits."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(28, 64)
        self.layers = nn.Sequential(*(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True) for _ in range(2)))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Images `[n, 28, 28]` to `[n, 10]`."""
        return self.head(self.layers(self.embed(x)).mean(1))  # type: ignore[no-any-return]  # as above


def transformer() -> Made:
    """Some 30 ms a step, 2 layers of attention."""
    return Attending(), torch.randn(1024, 28, 28), torch.randint(0, 10, (1024,))


MODELS: dict[str, Callable[[], Made]] = {"mlp": mlp, "cnn": cnn, "resnet": resnet}
