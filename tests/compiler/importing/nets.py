"""Models written by hand, as people write them, for the import to be tried on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

TABLE = np.eye(3)
"""What compares with anything element by element may stand beside a network, as it does in notebooks."""


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        x = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        x += identity
        out: Tensor = self.relu(x)
        return out


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.layer1 = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 8))
        self.layer2 = nn.Sequential(BasicBlock(8, 16, 2), BasicBlock(16, 16))
        self.fc = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer2(self.layer1(self.stem(x)))
        x = torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)
        out: Tensor = self.fc(F.dropout(x, 0.3, self.training))
        return out


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3 + 4 * i, 4, 3, padding=1) for i in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(F.relu(layer(torch.cat(features, 1))))
        return torch.cat(features, 1)


class Inception(nn.Module):
    """Branches run in another order than they are registered in, and both draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(3, 4, 3, padding=1)
        self.narrow = nn.Conv2d(3, 4, 1)
        self.drop1 = nn.Dropout(0.5)
        self.drop2 = nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.max_pool2d(x, 3, stride=1, padding=1)
        return torch.cat([self.drop2(self.narrow(x)), self.drop1(self.wide(x)), pooled], dim=1)


class Attention(nn.Module):
    mask: Tensor

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        q, k, v = self.qkv(x).split(c, dim=2)
        q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        x = (self.drop(F.softmax(scores, dim=-1)) @ v).transpose(1, 2).contiguous().view(b, t, c)
        out: Tensor = self.proj(x)
        return out


class GPTBlock(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, length)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict(
            {"up": nn.Linear(width, 4 * width), "act": nn.GELU(), "down": nn.Linear(4 * width, width)}
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        out: Tensor = x + self.mlp["down"](self.mlp["act"](self.mlp["up"](self.ln2(x))))
        return out


class GPT(nn.Module):
    def __init__(self, words: int = 11, width: int = 8, heads: int = 2, length: int = 6) -> None:
        super().__init__()
        self.length = length
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(words, width),
                "wpe": nn.Embedding(length, width),
                "h": nn.ModuleList([GPTBlock(width, heads, length) for _ in range(2)]),
                "ln_f": nn.LayerNorm(width),
            }
        )
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.transformer["wte"].weight  # type: ignore[assignment]  # tied, as in GPT-2

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        _, t = tokens.size()
        assert t <= self.length
        places = torch.arange(0, t, dtype=torch.long, device=tokens.device)
        x = self.transformer["wte"](tokens) + self.transformer["wpe"](places)
        for block in self.transformer["h"]:  # type: ignore[attr-defined]  # a list of blocks
            x = block(x)
        logits = self.head(self.transformer["ln_f"](x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 4)
        self.lstm = nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(12, 3)

    def forward(self, tokens: Tensor) -> dict[str, Any]:
        out, (h, c) = self.lstm(self.embed(tokens))
        return {"logits": self.fc(out[:, -1]), "state": (h, c), "rest": None}


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y, _ = self.attn(x, x, x, need_weights=False, attn_mask=mask)
        out: Tensor = self.norm(x + y)
        return out


class Shared(nn.Module):
    """One module under two names, one called several times."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = self.a
        self.block = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.block(self.a(self.block(self.a(x)) + self.b(x)))
        return out


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.linear(self.embed(tokens), self.embed.weight)


class Tensors(nn.Module):
    """Parameters, buffers and constants used directly, a number among the results."""

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.randn(2))
        self.scales = nn.ParameterList([torch.randn(3) for _ in range(3)])
        self.linear = nn.Linear(3, 3)
        self.gain = nn.Parameter(torch.randn(3), requires_grad=False)
        self.register_buffer("shift", torch.arange(3.0), persistent=False)
        self.register_buffer("steps", torch.zeros(()))
        self.idle = nn.Sequential(nn.Linear(2, 2))
        self.plain = torch.tensor([1.0, 2.0, 3.0])

    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        y = self.linear(x) * self.gain
        for scale in self.scales:
            y = y * scale
        return y + self.shift - self.plain + torch.tensor([0.5, 0.25, 1.0]), x.shape[0]


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.a(x) if x.sum() > 0 else x
        return out


class AroundBranching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.branch = Branching()
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.branch(self.first(x)))
        return out


class Sized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, size: int, flag: bool = True, mask: Tensor | None = None) -> tuple[Tensor, int]:
        y = self.linear(x)[:, :size]
        if flag:
            y = y * 2
        if mask is not None:
            y = y.masked_fill(mask, 0.0)
        return y, size * 2


class Arithmetic(nn.Module):
    """Computed sizes, constants and masks passed on to submodules."""

    def __init__(self) -> None:
        super().__init__()
        self.one = Sized()
        self.other = Sized()

    def forward(self, x: Tensor) -> Tensor:
        y, size = self.one(x, x.shape[1] // 2, flag=False)
        z, _ = self.other(x, x.size(1) - 1, mask=x[:, :-1] > 0)
        out: Tensor = y.sum() + z.mean(dim=(0, 1)) + size
        return out


class Alternating(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(4) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = F.relu_(norm(layer(x)))
        return x


class Around(nn.Module):
    """Any module, with a layer after it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.inner(x))
        return out
