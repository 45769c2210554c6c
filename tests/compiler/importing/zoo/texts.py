"""Networks of sequences, once more and in other hands."""

from __future__ import annotations

import math
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class KeptAttention(nn.Module):
    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16), persistent=False)

    def forward(self, x: Tensor, past: Any = None, use_cache: bool = False) -> Any:
        b, t, c = x.size()
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.c_attn(x).split(c, dim=2))
        if past is not None:
            k, v = torch.cat((past[0], k), dim=-2), torch.cat((past[1], v), dim=-2)
        present = (k, v) if use_cache else None
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        s = k.size(-2)
        mask: Any = self.mask
        att = att.masked_fill(mask[:, :, s - t : s, :s] == 0, float("-inf"))
        y = (F.softmax(att, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, c)
        return self.c_proj(y), present


class CachedGPT(nn.Module):
    """Keys and values of earlier calls come in and go out."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(11, 8),
                "wpe": nn.Embedding(16, 8),
                "h": nn.ModuleList(KeptAttention() for _ in range(2)),
            }
        )
        self.lm_head = nn.Linear(8, 11, bias=False)
        self.transformer["wte"].weight = self.lm_head.weight

    def forward(self, idx: Tensor, past_key_values: Any = None, use_cache: bool = True) -> Any:
        past_length = 0 if past_key_values is None else past_key_values[0][0].size(-2)
        device = idx.device
        pos = torch.arange(past_length, past_length + idx.size(1), dtype=torch.long, device=device).unsqueeze(0)
        x = self.transformer["wte"](idx) + self.transformer["wpe"](pos)
        presents: Any = () if use_cache else None
        blocks: Any = self.transformer["h"]
        for i, block in enumerate(blocks):
            out, present = block(x, past=None if past_key_values is None else past_key_values[i], use_cache=use_cache)
            x = x + out
            if use_cache:
                presents += (present,)
        return self.lm_head(x), presents


class TransformerXL(nn.Module):
    """A memory of the segment before, relative positions by a shift."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(9, 8)
        self.q, self.kv, self.r = nn.Linear(8, 8), nn.Linear(8, 16), nn.Linear(8, 8, bias=False)
        self.u, self.v = nn.Parameter(torch.zeros(8)), nn.Parameter(torch.zeros(8))

    @staticmethod
    def rel_shift(x: Tensor) -> Tensor:
        zero = torch.zeros((x.size(0), x.size(1), 1), device=x.device, dtype=x.dtype)
        padded = torch.cat([zero, x], dim=2).view(x.size(0), x.size(2) + 1, x.size(1))
        return padded[:, 1:].reshape(x.size())

    def forward(self, ids: Tensor, mems: Tensor | None = None) -> Any:
        x = self.embed(ids)
        cat = x if mems is None else torch.cat([mems, x], 1)
        k, v = torch.chunk(self.kv(cat), 2, dim=-1)
        q = self.q(x)
        klen = k.shape[1]
        freq = 1 / (100 ** (torch.arange(0.0, 8.0, 2.0, device=x.device) / 8))
        sinusoid = torch.outer(torch.arange(klen - 1, -1, -1.0, device=x.device), freq)
        r = self.r(torch.cat([sinusoid.sin(), sinusoid.cos()], dim=-1))
        ac = torch.einsum("bid,bjd->bij", q + self.u, k)
        bd = self.rel_shift(torch.einsum("bid,jd->bij", q + self.v, r))
        out = ((ac + bd) / 8**0.5).softmax(-1) @ v
        with torch.no_grad():
            new_mems = cat[:, -4:].detach()
        return x + out, new_mems


class Forced(nn.Module):
    """A decoder that is given the truth, with a step that the loss looks at only."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.LSTM(6, 8, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.embed = nn.Embedding(7, 8)
        self.decoder = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 7)

    def merge(self, state: Tensor) -> Tensor:
        layers, batch, width = state.shape
        state = state.view(layers // 2, 2, batch, width)
        return torch.cat([state[:, 0], state[:, 1]], dim=-1)[-1:].contiguous()

    def forward(self, src: Tensor, trg: Tensor, ignore_index: int = 0) -> Any:
        _, (h, c) = self.encoder(src)
        out, _ = self.decoder(self.embed(trg[:, :-1]), (self.merge(h), self.merge(c)))
        logits = self.head(out)
        loss = F.cross_entropy(logits.transpose(1, 2), trg[:, 1:], ignore_index=ignore_index)
        return loss, logits


Output = namedtuple("Output", ["logits", "hidden"])  # noqa: PYI024  # as many write it


@dataclass
class Scores:
    start: Tensor
    end: Tensor
    kind: str = "span"


class Pooler(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(8, 8)

    def forward(self, hidden: Tensor, mask: Tensor) -> Output:
        weight = mask.unsqueeze(-1).to(hidden.dtype)
        pooled = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return Output(torch.tanh(self.dense(pooled)), hidden)


class SpanBert(nn.Module):
    """Padding found from the tokens, a named tuple on the way, a data class as result, heads chosen by name."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(12, 8, padding_idx=0)
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.pooler = Pooler()
        self.heads = nn.ModuleDict({"span": nn.Linear(8, 2), "class": nn.Linear(8, 3)})
        self.scale = nn.ParameterDict({"a": nn.Parameter(torch.ones(8)), "b": nn.Parameter(torch.zeros(8))})

    def forward(self, ids: Tensor, task: str = "span") -> Any:
        padding = ids.eq(0)
        x = self.embed(ids) * self.scale["a"] + self.scale["b"]
        attended, weights = self.attention(x, x, x, key_padding_mask=padding, need_weights=True)
        pooled = self.pooler(x + attended, ~padding)
        if task == "span":
            start, end = self.heads["span"](pooled.hidden).unbind(-1)
            return Scores(start + pooled.logits.sum(-1, keepdim=True), end)
        return self.heads[task](pooled.logits), weights


class TopKExperts(nn.Module):
    """Each token goes to its best experts; tokens are picked by where the mask holds, added by index."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(4, 3, bias=False)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 4)) for _ in range(3)])

    def forward(self, hidden: Tensor) -> Any:
        b, t, d = hidden.shape
        flat = hidden.view(-1, d)
        logits = self.gate(flat)
        weights, chosen = torch.topk(F.softmax(logits, dim=1, dtype=torch.float), 2, dim=-1)
        weights /= weights.sum(dim=-1, keepdim=True)
        out = torch.zeros((b * t, d), dtype=flat.dtype, device=flat.device)
        mask = F.one_hot(chosen, num_classes=3).permute(2, 1, 0)
        for index in range(len(self.experts)):
            place, token = torch.where(mask[index])
            current = self.experts[index](flat[token]) * weights[token, place, None]
            out.index_add_(0, token, current.to(flat.dtype))
        return out.reshape(b, t, d), logits


class GatedWaves(nn.Module):
    """Dilated gates, skips summed by a function, causal by padding on one side."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv1d(1, 4, 1)
        self.filters = nn.ModuleList()
        self.gates, self.skips = nn.ModuleList(), nn.ModuleList()
        for i in range(3):
            self.filters.append(nn.Conv1d(4, 4, 2, dilation=2**i))
            self.gates.append(nn.Conv1d(4, 4, 2, dilation=2**i))
            self.skips.append(nn.Conv1d(4, 3, 1))
        self.dilations = [2**i for i in range(3)]

    def forward(self, x: Tensor) -> Any:
        x = self.start(x)
        skips: list[Tensor] = []
        for filt, gate, skip, dilation in zip(self.filters, self.gates, self.skips, self.dilations, strict=True):
            padded = F.pad(x, (dilation, 0))
            z = torch.tanh(filt(padded)) * torch.sigmoid(gate(padded))
            skips += [skip(z)]
            x = z + x
        return F.log_softmax(sum(skips), dim=1)  # type: ignore[arg-type]  # a sum of tensors


class ConditionalVAE(nn.Module):
    """Reparameterisation by randn_like, while training only; the loss of both parts."""

    def __init__(self) -> None:
        super().__init__()
        self.enc, self.mu, self.logvar = nn.Linear(9, 8), nn.Linear(8, 2), nn.Linear(8, 2)
        self.dec = nn.Linear(5, 6)

    def reparameterise(self, mu: Tensor, logvar: Tensor) -> Tensor:
        if self.training:
            std = torch.exp(0.5 * logvar)
            return mu + torch.randn_like(std) * std
        return mu

    def forward(self, x: Tensor, y: Tensor) -> Any:
        onehot = F.one_hot(y, 3).float()
        h = F.elu(self.enc(torch.cat([x, onehot], 1)))
        mu, logvar = self.mu(h), self.logvar(h).clamp_(-5, 5)
        z = self.reparameterise(mu, logvar)
        recon = torch.sigmoid(self.dec(torch.cat([z, onehot], dim=1)))
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        return recon, F.binary_cross_entropy(recon, x, reduction="sum") + kld


class Triplet(nn.Module):
    """One tower for three inputs, with a margin and hard examples by a comparison."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(6, 8), nn.PReLU(), nn.Linear(8, 4))
        self.margin = nn.Parameter(torch.tensor(0.5), requires_grad=False)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:
        a, p, n = (F.normalize(self.tower(t), dim=-1) for t in (anchor, positive, negative))
        near, far = (a - p).pow(2).sum(1), torch.cdist(a.unsqueeze(1), n.unsqueeze(1)).flatten()
        return torch.where(far > near, F.relu(near - far + self.margin), near).mean(), (a, p, n)


class ScatterConv(nn.Module):
    """Messages along edges, summed where they arrive, normalized by degrees."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.lin = nn.Linear(before, after, bias=False)
        self.bias = nn.Parameter(torch.zeros(after))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        n = x.size(0)
        loops = torch.arange(n, device=x.device).unsqueeze(0).repeat(2, 1)
        edge_index = torch.cat([edge_index, loops], dim=1)
        if edge_weight is None:
            edge_weight = torch.ones(edge_index.size(1), dtype=x.dtype, device=x.device)
        row, col = edge_index
        degree = torch.zeros(n, dtype=x.dtype, device=x.device).scatter_add_(0, col, edge_weight)
        norm = degree.pow(-0.5)
        norm.masked_fill_(norm == float("inf"), 0)
        weight = norm[row] * edge_weight * norm[col]
        x = self.lin(x)
        out = torch.zeros_like(x)
        out.index_add_(0, col, weight.view(-1, 1) * x[row])
        return out + self.bias


class GraphNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = ScatterConv(4, 6), ScatterConv(6, 3)

    def forward(self, x: Tensor, edge_index: Tensor) -> Any:
        x = F.dropout(F.relu(self.conv1(x, edge_index)), p=0.5, training=self.training)
        return F.log_softmax(self.conv2(x, edge_index), dim=1)
