"""The models that the benchmarks train: a step of half a millisecond, of some ten, and of some fifty."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
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
        out = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(out + self.skip(x))  # type: ignore[no-any-return]  # torch types the call of a module as Any


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            shortcut = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(4 * width))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        x += identity
        return self.relu(x)  # type: ignore[no-any-return]  # as above


class ResNet(nn.Module):
    def __init__(self, stem: nn.Conv2d, pool: nn.Module, width: int, counts: Sequence[int], classes: int) -> None:
        super().__init__()
        inputs = stem.out_channels
        self.conv1, self.bn1, self.relu, self.maxpool = stem, nn.BatchNorm2d(inputs), nn.ReLU(inplace=True), pool
        for number, count in enumerate(counts, 1):
            blocks = []
            for index in range(count):
                blocks.append(Bottleneck(inputs, width, 2 if index == 0 and number > 1 else 1))
                inputs = 4 * width
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
            width *= 2
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))  # type: ignore[no-any-return]  # as above


def resnet50() -> nn.Module:
    return ResNet(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.MaxPool2d(3, 2, 1), 64, (3, 4, 6, 3), 1000)


class AttentionBlock(nn.Module):
    """A block of a transformer, with attention written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5).softmax(-1)
        x = x + self.proj((weights @ v).transpose(1, 2).reshape(n, t, c))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))  # type: ignore[no-any-return]  # as above


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
        return self.head(self.layers(self.embed(x)).mean(1))  # type: ignore[no-any-return]  # as above


def transformer() -> Made:
    """Some 30 ms a step, 2 layers of attention."""
    return Attending(), torch.randn(1024, 28, 28), torch.randint(0, 10, (1024,))


MODELS: dict[str, Callable[[], Made]] = {"mlp": mlp, "cnn": cnn, "resnet": resnet}
ALL = {**MODELS, "transformer": transformer}
