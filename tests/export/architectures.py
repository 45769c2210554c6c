"""Public architectures at small sizes, written by hand as their authors write them, to import and export each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.compiler.importing import nets
from tests.compiler.importing.zoo import MODELS, Entry, image, tokens
from tests.export.kinds import KINDS


class SelectiveScan(nn.Module):
    """A block of Mamba: a state space whose step, input and output matrices depend on what is read.

    Args:
        width: Features.
        states: Size of the state of each feature.
    """

    def __init__(self, width: int = 6, states: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.in_proj = nn.Linear(width, 2 * width)
        self.conv = nn.Conv1d(width, width, 3, groups=width, padding=2)
        self.x_proj = nn.Linear(width, 1 + 2 * states)
        self.dt_proj = nn.Linear(1, width)
        self.A_log = nn.Parameter(torch.arange(1.0, states + 1).repeat(width, 1).log())
        self.D = nn.Parameter(torch.ones(width))
        self.out_proj = nn.Linear(width, width)
        self.states = states

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        hidden, gate = self.in_proj(self.norm(x)).chunk(2, dim=-1)
        hidden = F.silu(self.conv(hidden.transpose(1, 2))[:, :, :length].transpose(1, 2))
        dt, b, c = self.x_proj(hidden).split([1, self.states, self.states], dim=-1)
        dt = F.softplus(self.dt_proj(dt))
        decay = -torch.cumsum(dt, dim=1).unsqueeze(-1) * self.A_log.exp()
        added = torch.cumsum((dt * hidden).unsqueeze(-1) * b.unsqueeze(2) * torch.exp(-decay), dim=1)
        y = (added * torch.exp(decay) * c.unsqueeze(2)).sum(-1) + hidden * self.D
        out: Tensor = x + self.out_proj(y * F.silu(gate))
        return out


class Mamba(nn.Module):
    """A language model of two blocks, whose head shares the weights of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(13, 6)
        self.layers = nn.ModuleList(SelectiveScan() for _ in range(2))
        self.head = nn.Linear(6, 13, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embedding(input_ids)
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.head(x)
        return logits


ZOO = (
    "densenet", "googlenet", "unet", "mobilenet", "convnext", "vit", "swin", "shufflenet", "pyramid", "deeplab",
    "efficientnet", "hrnet", "yolo", "detr", "vqvae", "siamese", "char rnn", "word lm", "seq2seq", "transformer lm",
    "llama", "rotary gpt", "bert ids", "t5 attention", "causal lm", "wavenet", "tcn", "text cnn", "conv lstm",
    "translation", "gcn", "attention on graphs", "pointnet", "patchtst", "top experts",
)  # fmt: skip

ARCHITECTURES: dict[str, Entry] = {
    "resnet": Entry(nets.ResNet, (image(2, 3, 16, 16),), others=((image(5, 3, 16, 16),),)),
    "gpt": Entry(nets.GPT, (tokens(9, 2, 5),), others=((tokens(9, 3, 6),),)),
    "mamba": Entry(Mamba, (tokens(13, 2, 5),), others=((tokens(13, 3, 8),),)),
    **{f"{name} (module)" if name in KINDS else name: MODELS[name] for name in ZOO},
}


def declared_shapes(entry: Entry) -> list[tuple[int | str, ...]]:
    """Return the shapes of the arguments with a name for each size that another call of the entry has otherwise."""
    others: Sequence[Any] = entry.others[0] if entry.others else entry.args
    names: Iterator[str] = iter("NTSKLM")
    known: dict[tuple[int, int], str] = {}

    def size(now: int, then: int) -> int | str:
        if now == then:
            return now
        if (now, then) not in known:
            known[now, then] = next(names)
        return known[now, then]

    return [tuple(map(size, one.shape, other.shape)) for one, other in zip(entry.args, others, strict=True)]
