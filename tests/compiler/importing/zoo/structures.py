"""Networks for signals, sets, graphs and tables, and some that do odd things."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CausalConv(nn.Module):
    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        self.left = 2 * dilation
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(inputs, outputs, 3, dilation=dilation))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(F.pad(x, (self.left, 0)))
        return out


class WaveNet(nn.Module):
    """Gated dilated convolutions and the sum of their skips."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv1d(1, 4, 1)
        self.filters = nn.ModuleList([nn.Conv1d(4, 4, 2, dilation=2**i) for i in range(3)])
        self.gates = nn.ModuleList([nn.Conv1d(4, 4, 2, dilation=2**i) for i in range(3)])
        self.skips = nn.ModuleList([nn.Conv1d(4, 3, 1) for _ in range(3)])
        self.end = nn.Conv1d(3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        skip: Any = 0
        for filter, gate, skipping in zip(self.filters, self.gates, self.skips, strict=True):
            z = torch.tanh(filter(x)) * torch.sigmoid(gate(x))
            s = skipping(z)
            try:
                skip = skip[:, :, -s.size(2) :] + s
            except TypeError:
                skip = s
            x = z + x[:, :, -z.size(2) :]
        out: Tensor = self.end(F.relu(skip))
        return out


class TCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(CausalConv(2, 4, 1), nn.ReLU(), nn.Dropout1d(0.1), CausalConv(4, 4, 2))
        self.down = nn.Conv1d(2, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.net(x) + self.down(x))


class TextCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 6)
        self.convs = nn.ModuleList([nn.Conv2d(1, 3, (k, 6)) for k in (2, 3, 4)])
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(9, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens).unsqueeze(1)
        maps = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        pooled = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in maps]
        out: Tensor = self.fc(self.dropout(torch.cat(pooled, 1)))
        return out


class PackedTagger(nn.Module):
    """Sequences of different lengths, packed."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 5)
        self.lstm = nn.LSTM(5, 4, batch_first=True)
        self.out = nn.Linear(4, 3)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        output, _ = self.lstm(packed)
        padded, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        out: Tensor = self.out(padded)
        return out


class Translation(nn.Module):
    """nn.Transformer with all of its masks, by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8, padding_idx=0)
        self.transformer = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True)
        self.generator = nn.Linear(8, 10)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        mask = torch.triu(torch.full((tgt.size(1), tgt.size(1)), float("-inf")), diagonal=1)
        padding = src == 0
        out = self.transformer(
            self.embed(src), self.embed(tgt), tgt_mask=mask, src_key_padding_mask=padding.float() * -1e9
        )
        result: Tensor = self.generator(out)
        return result


class GCNLayer(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input: Tensor, adj: Tensor) -> Tensor:
        support = torch.mm(input, self.weight)
        output = torch.mm(adj, support)
        return output + self.bias


class GCN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gc1 = GCNLayer(5, 8)
        self.gc2 = GCNLayer(8, 3)
        self.dropout = 0.5

    def forward(self, x: Tensor, adj: Tensor) -> Tensor:
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        x = self.gc2(x, adj)
        return F.log_softmax(x, dim=1)


class MessagePassing(nn.Module):
    """Messages along edges, summed where they arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(8, 6), nn.ReLU())
        self.update = nn.GRUCell(6, 4)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        messages = self.message(torch.cat([x[source], x[target]], dim=-1))
        gathered = torch.zeros(x.size(0), 6).index_add_(0, target, messages)
        out: Tensor = self.update(gathered, x)
        return out


class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(3, 6, 1), nn.Conv1d(6, 8, 1)
        self.fc = nn.Linear(8, 9)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        batchsize = x.size()[0]
        y = F.relu(self.conv2(F.relu(self.conv1(x))))
        y = torch.max(y, 2, keepdim=True)[0].view(-1, 8)
        iden = torch.eye(3).view(1, 9).repeat(batchsize, 1)
        rotation = (self.fc(y) + iden).view(-1, 3, 3)
        z = torch.bmm(x.transpose(2, 1), rotation).transpose(2, 1)
        out: Tensor = self.head(F.relu(self.conv2(F.relu(self.conv1(z)))).max(dim=2).values)
        return out


class DeepFM(nn.Module):
    """Features by name in a dictionary, embeddings for each."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = {"user": 5, "item": 7, "hour": 3}
        self.embeddings = nn.ModuleDict({name: nn.Embedding(size, 4) for name, size in self.sizes.items()})
        self.linear = nn.ModuleDict({name: nn.Embedding(size, 1) for name, size in self.sizes.items()})
        self.mlp = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, features: dict[str, Tensor]) -> Tensor:
        vectors = torch.stack([self.embeddings[name](features[name]) for name in self.sizes], dim=1)
        first = sum(self.linear[name](features[name]) for name in self.sizes)
        square = vectors.sum(dim=1).pow(2) - vectors.pow(2).sum(dim=1)
        second = 0.5 * square.sum(dim=1, keepdim=True)
        deep = self.mlp(vectors.flatten(start_dim=1))
        return torch.sigmoid(first + second + deep).squeeze(-1)


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.actor, self.critic = nn.Linear(8, 2), nn.Linear(8, 1)
        self.log_std = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.body(x)
        mean = self.actor(hidden)
        std = self.log_std.exp().expand_as(mean)
        return mean, std, self.critic(hidden).squeeze(-1)


class Autoregressive(nn.Module):
    """A loop whose end depends on what is drawn: opaque, and honest about it."""

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        while x.abs().max() > 1:
            x = self.step(x) * 0.1
        return x


class EarlyExit(nn.Module):
    """Only the part that decides by the data is opaque; what stands before and after stays editable."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.loop = Autoregressive()
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.loop(self.stem(x)))
        return out


class Hopfield(nn.Module):
    """Assigns to items and slices of a tensor that it has made."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros(x.size(0), 2, 4)
        out[:, 0] = self.lin(x)
        out[:, 1, :2] = x[:, :2] * 2
        out[..., -1] += 1.0
        return out


class LossInside(nn.Module):
    """The loss is a submodule and the target an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ELU(), nn.Linear(8, 3))
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.1)

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        logits = self.net(x)
        return {"loss": self.loss(logits, y), "accuracy": (logits.argmax(-1) == y).float().mean()}
