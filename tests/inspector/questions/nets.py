"""Small nets of every kind that is asked about, each with an example and a target."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Case(NamedTuple):
    net: nn.Module
    data: Any
    target: Any


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.conv1, self.bn1 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Any:
        x = F.gelu(self.stem(x))
        x = F.gelu(self.bn2(self.conv2(F.gelu(self.bn1(self.conv1(x))))) + x)
        return self.fc(x.mean((2, 3)))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(6, 4, 2, stride=2), nn.Conv2d(8, 3, 1)

    def forward(self, x: Tensor) -> Any:
        first = self.down(x).tanh()
        deep = self.deep(F.avg_pool2d(first, 2)).tanh()
        return self.out(torch.cat([self.up(deep), first], 1))


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 8, 4, stride=4)
        self.place = nn.Parameter(torch.randn(1, 4, 8))
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True, activation="gelu")
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Any:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.place
        return self.head(self.encoder(tokens).mean(1))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        n, t, c = x.shape
        query, key, value = (one.view(n, t, 2, 4).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        scores = query @ key.transpose(-2, -1) / math.sqrt(4)
        later = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(later, -math.inf).softmax(-1) @ value
        return self.proj(mixed.transpose(1, 2).reshape(n, t, c))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(8), Attention()
        self.ln2, self.mlp = nn.LayerNorm(8), nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> Any:
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 11, bias=False)

    def forward(self, ids: Tensor) -> Any:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.LSTM | nn.GRU | nn.RNN], *, tokens: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 5) if tokens else nn.Identity()
        self.rnn = kind(5, 6, batch_first=True, num_layers=2, dropout=0.2)
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Any:
        return self.fc(self.rnn(self.embedding(x))[0][:, -1])


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image, self.table = nn.Conv2d(1, 3, 3), nn.Linear(4, 6)
        self.out = nn.Bilinear(3, 6, 2)

    def forward(self, image: Tensor, row: Tensor) -> Any:
        return self.out(self.image(image).sigmoid().mean((2, 3)), self.table(row).tanh())


class EncoderDecoder(nn.Module):
    """Both embeddings are one module."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.core = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True)
        self.out = nn.Linear(8, 10)

    def forward(self, source: Tensor, *, so_far: Tensor) -> Any:
        return self.out(self.core(self.embedding(source), self.embedding(so_far)))


class Tabular(nn.Module):
    """Numbers and categories, and a plain dictionary as output."""

    def __init__(self) -> None:
        super().__init__()
        self.category = nn.Embedding(5, 3)
        self.body = nn.Sequential(nn.Linear(4 + 2 * 3, 8), nn.SiLU(), nn.BatchNorm1d(8), nn.Linear(8, 1))

    def forward(self, numbers: Tensor, categories: Tensor, mask: Tensor) -> Any:
        found = self.category(categories).flatten(1)
        return {"price": self.body(torch.cat([numbers * mask, found], 1))}


class Mixer(nn.Module):
    """Mixes tokens and channels, with a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.channels, self.gate = nn.Linear(5, 5), nn.Linear(6, 6), nn.Linear(6, 6)
        self.norm, self.fc = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Any:
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return self.fc((self.channels(x) * self.gate(x).sigmoid()).mean(1))


class Squeeze(nn.Module):
    """Depthwise convolutions, whose channels are weighted by their means."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depth = nn.Conv2d(2, 6, 1), nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.norm, self.fc1, self.fc2, self.head = nn.GroupNorm(2, 6), nn.Linear(6, 2), nn.Linear(2, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Any:
        x = F.silu(self.norm(self.depth(self.stem(x))))
        return self.head((x * self.fc2(self.fc1(x.mean((2, 3))).relu()).sigmoid()[..., None, None]).mean((2, 3)))


def _mlp() -> Case:
    return Case(nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)), torch.randn(3, 5), 1)


def _cnn() -> Case:
    layers = (
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6, 5),
    )
    return Case(nn.Sequential(*layers), torch.randn(2, 1, 8, 8), 3)


def _text_cnn() -> Case:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.conv, self.fc = nn.Embedding(12, 4), nn.Conv1d(4, 6, 3), nn.Linear(6, 2)

        def forward(self, ids: Tensor) -> Any:
            return self.fc(self.conv(self.embedding(ids).transpose(1, 2)).relu().amax(-1))

    return Case(Net(), torch.randint(12, (2, 7)), torch.tensor([0, 1]))


CASES: dict[str, Callable[[], Case]] = {
    "MLP": _mlp,
    "CNN": _cnn,
    "residual": lambda: Case(Residual(), torch.randn(2, 3, 6, 6), 2),
    "U-Net": lambda: Case(UNet(), torch.randn(2, 1, 8, 8), (1, 3, 4)),
    "ViT": lambda: Case(ViT(), torch.randn(2, 1, 8, 8), 0),
    "GPT": lambda: Case(GPT(), torch.randint(11, (2, 6)), (-1, 7)),
    "LSTM": lambda: Case(Recurrent(nn.LSTM, tokens=False), torch.randn(2, 4, 5), 2),
    "GRU of tokens": lambda: Case(Recurrent(nn.GRU, tokens=True), torch.randint(9, (2, 4)), 0),
    "two inputs": lambda: Case(TwoInputs(), (torch.randn(2, 1, 5, 5), torch.randn(2, 4)), 1),
    "encoder–decoder": lambda: Case(
        EncoderDecoder(), {"source": torch.randint(10, (2, 4)), "so_far": torch.randint(10, (2, 3))}, (2, 5)
    ),
    "tabular": lambda: Case(
        Tabular(), (torch.randn(3, 4), torch.randint(5, (3, 2)), torch.ones(3, 4, dtype=torch.bool)), None
    ),
    "text CNN": _text_cnn,
    "mixer": lambda: Case(Mixer(), torch.randn(2, 5, 6), 1),
    "squeeze and excite": lambda: Case(Squeeze(), torch.randn(2, 2, 6, 6), 3),
    "volumes": lambda: Case(
        nn.Sequential(nn.Conv3d(1, 3, 2), nn.Softplus(), nn.AvgPool3d(2), nn.Flatten(), nn.Linear(24, 2)),
        torch.randn(2, 1, 5, 5, 5),
        0,
    ),
    "signals": lambda: Case(
        nn.Sequential(
            nn.Conv1d(2, 4, 3, stride=2), nn.ELU(), nn.ConvTranspose1d(4, 2, 3), nn.Flatten(), nn.Linear(12, 3)
        ),
        torch.randn(2, 2, 9),
        2,
    ),
    "RNN of tokens": lambda: Case(Recurrent(nn.RNN, tokens=True), torch.randint(9, (2, 4)), 1),
    "text transformer": lambda: Case(
        nn.Sequential(
            nn.Embedding(9, 8),
            nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
            nn.Flatten(),
            nn.Linear(40, 3),
        ),
        torch.randint(9, (2, 5)),
        2,
    ),
    "regression": lambda: Case(
        nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 1)), torch.randn(3, 6), None
    ),
    "autoencoder": lambda: Case(
        nn.Sequential(nn.Linear(6, 3), nn.Sigmoid(), nn.Linear(3, 6)),
        torch.randn(2, 6),
        lambda out: out.square().sum(1),
    ),
}


def made(name: str) -> Case:
    torch.manual_seed(0)
    case = CASES[name]()
    for module in case.net.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)  # type: ignore[arg-type]
            nn.init.uniform_(module.running_var, 0.5, 2)  # type: ignore[arg-type]
    return case
