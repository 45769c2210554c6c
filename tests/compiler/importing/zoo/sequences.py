"""Recurrent networks over packed and padded sequences, and networks on graphs."""

from __future__ import annotations

import logging
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger(__name__)


class PackedLM(nn.Module):
    def __init__(self, rnn_type: Any = "GRU") -> None:
        super().__init__()
        self.enc = nn.Embedding(11, 6)
        self.rnn = getattr(nn, rnn_type)(6, 5, 2, dropout=0.2, bidirectional=True, batch_first=True)
        self.dec = nn.Linear(10, 11)
        self.drop = nn.Dropout(0.1)

    def init_hidden(self, bsz: Any) -> Any:
        weight = next(self.parameters())
        return weight.new_zeros(4, bsz, 5)

    def forward(self, x: Any, lengths: Any) -> Any:
        e = self.drop(self.enc(x))
        hidden = self.init_hidden(x.size(0))
        packed = nn.utils.rnn.pack_padded_sequence(e, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, hidden = self.rnn(packed, hidden)
        out, _lens = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return (F.log_softmax(self.dec(out), dim=-1), hidden)


class AttendingDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(9, 6)
        self.cell = nn.LSTMCell(12, 6)
        self.attn = nn.Linear(6, 6, bias=False)
        self.out = nn.Linear(12, 9)

    def step(self, tok: Any, state: Any, mem: Any) -> Any:
        h, c = self.cell(torch.cat([self.emb(tok), state[2]], -1), state[:2])
        s = torch.bmm(self.attn(mem), h.unsqueeze(2)).squeeze(2).softmax(-1)
        ctx = torch.bmm(s.unsqueeze(1), mem).squeeze(1)
        return (self.out(torch.cat([h, ctx], 1)), (h, c, ctx))

    def forward(self, mem: Any, target: Any) -> Any:
        B = mem.size(0)
        state = tuple(mem.new_zeros(B, 6) for _ in range(3))
        outs = []
        for t in range(target.size(1)):
            o, state = self.step(target[:, t], state, mem)
            outs.append(o)
        return torch.stack(outs, 1)


class ConvLSTMCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1 + 3, 12, 3, padding=1)
        self.hid = 3

    def forward(self, x: Any, state: Any) -> Any:
        h, c = state
        i, f, o, g = torch.split(self.conv(torch.cat([x, h], 1)), self.hid, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return (h, c)

    def init_hidden(self, b: Any, size: Any) -> Any:
        h, w = size
        return (
            torch.zeros(b, self.hid, h, w, device=self.conv.weight.device),
            torch.zeros(b, self.hid, h, w, device=self.conv.weight.device),
        )


class ConvLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells: Any = nn.ModuleList([ConvLSTMCell()])

    def forward(self, x: Any, hidden: Any = None) -> Any:
        b, T, _, h, w = x.size()
        if hidden is not None:
            raise NotImplementedError
        state = [c.init_hidden(b, (h, w)) for c in self.cells]
        outs = []
        for i, cell in enumerate(self.cells):
            s = state[i]
            for t in range(T):
                s = cell(x[:, t], s)
                outs.append(s[0])
        return (torch.stack(outs, dim=1), [s])


def scatter(src: Any, index: Any, dim_size: Any, reduce: Any = "sum") -> Any:
    out = torch.zeros(dim_size, src.size(-1), dtype=src.dtype, device=src.device)
    idx = index.view(-1, 1).expand_as(src)
    if reduce == "sum":
        return out.scatter_add_(0, idx, src)
    if reduce == "mean":
        cnt = torch.zeros(dim_size, device=src.device).scatter_add(0, index, torch.ones_like(index, dtype=src.dtype))
        return out.scatter_add_(0, idx, src) / cnt.clamp(min=1).unsqueeze(-1)
    return out.scatter_reduce_(0, idx, src, reduce="amax", include_self=False)


class GATConv(nn.Module):
    def __init__(self, i: Any, o: Any, heads: Any = 2) -> None:
        super().__init__()
        self.lin = nn.Linear(i, heads * o, bias=False)
        self.h, self.o = (heads, o)
        self.att = nn.Parameter(torch.randn(1, heads, o))
        self.att2 = nn.Parameter(torch.randn(1, heads, o))

    def forward(self, x: Any, edge_index: Any) -> Any:
        N = x.size(0)
        h = self.lin(x).view(-1, self.h, self.o)
        a_s, a_d = ((h * self.att).sum(-1), (h * self.att2).sum(-1))
        src, dst = (edge_index[0], edge_index[1])
        a = F.leaky_relu(a_s[src] + a_d[dst], 0.2)
        m = torch.full((N, self.h), float("-inf")).scatter_reduce(0, dst[:, None].expand_as(a), a, reduce="amax")
        e = torch.exp(a - m[dst].detach())
        den = torch.zeros(N, self.h).scatter_add(0, dst[:, None].expand_as(e), e)
        alpha = F.dropout(e / (den[dst] + 1e-16), 0.1, self.training)
        out = torch.zeros(N, self.h, self.o).index_add(0, dst, h[src] * alpha.unsqueeze(-1))
        return out.mean(1)


class GNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.g1 = GATConv(4, 6)
        self.g2 = GATConv(6, 3)
        self.bn = nn.BatchNorm1d(6)

    def forward(self, x: Any, edge_index: Any, batch: Any) -> Any:
        x = F.elu(self.bn(self.g1(x, edge_index)))
        x = self.g2(x, edge_index)
        int(batch.max()) + 1
        return torch.cat([scatter(x, batch, 2), scatter(x, batch, 2, "mean"), scatter(x, batch, 2, "max")], -1)


class CountedPool(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 3)

    def forward(self, x: Any, batch: Any) -> Any:
        B = int(batch.max()) + 1
        return scatter(self.lin(x), batch, B)


class CountedItems(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 3)

    def forward(self, x: Any, batch: Any) -> Any:
        B = batch.max().item() + 1
        return x.new_zeros(B, 3).index_add_(0, batch, self.lin(x))
