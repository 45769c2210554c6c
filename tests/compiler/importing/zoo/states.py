"""Networks that keep something between calls, compute parts without gradients, or compute parts again."""

from __future__ import annotations

import logging
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

logger = logging.getLogger(__name__)


class MovingCodebook(nn.Module):
    cluster_size: Tensor
    embed: Tensor
    embed_avg: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.decay = 0.9
        self.register_buffer("cluster_size", torch.zeros(6))
        self.register_buffer("embed", torch.randn(4, 6))
        self.register_buffer("embed_avg", self.embed.clone())

    def forward(self, x: Any) -> Any:
        flat = x.reshape(-1, 4)
        dist = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.embed + self.embed.pow(2).sum(0, keepdim=True)
        _, ind = (-dist).max(1)
        onehot = F.one_hot(ind, 6).type(flat.dtype)
        ind = ind.view(*x.shape[:-1])
        q = F.embedding(ind, self.embed.transpose(0, 1))
        if self.training:
            s = onehot.sum(0)
            es = flat.transpose(0, 1) @ onehot
            self.cluster_size.data.mul_(self.decay).add_(s, alpha=1 - self.decay)
            self.embed_avg.data.mul_(self.decay).add_(es, alpha=1 - self.decay)
            n = self.cluster_size.sum()
            cs = (self.cluster_size + 1e-05) / (n + 6 * 1e-05) * n
            self.embed.data.copy_(self.embed_avg / cs.unsqueeze(0))
        diff = (q.detach() - x).pow(2).mean()
        q = x + (q - x).detach()
        return (q, diff, ind)


class RunningNorm(nn.Module):
    mean: Tensor
    var: Tensor
    n: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))
        self.register_buffer("n", torch.tensor(0))

    def forward(self, x: Any) -> Any:
        if self.training:
            with torch.no_grad():
                self.n += 1
                m = 1.0 / float(10)
                self.mean.lerp_(x.mean(0), m)
                self.var = (1 - m) * self.var + m * x.var(0, unbiased=False)
        return (x - self.mean) / torch.sqrt(self.var + 1e-05)


class Contrastive(nn.Module):
    """MoCo like queue"""

    queue: Tensor
    ptr: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(4, 3)
        self.k = nn.Linear(4, 3)
        for a, b in zip(self.q.parameters(), self.k.parameters(), strict=False):
            b.data.copy_(a.data)
            b.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(3, 8), dim=0))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _update(self) -> None:
        for a, b in zip(self.q.parameters(), self.k.parameters(), strict=False):
            b.data = b.data * 0.9 + a.data * 0.1

    def forward(self, x: Any, y: Any) -> Any:
        q = F.normalize(self.q(x), dim=1)
        with torch.no_grad():
            k = F.normalize(self.k(y), dim=1)
        pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([pos, neg], 1) / 0.07
        return (logits, torch.zeros(logits.shape[0], dtype=torch.long))


class MomentumContrast(Contrastive):
    def forward(self, x: Any, y: Any) -> Any:
        self._update()
        return super().forward(x, y)


class Probe(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            f = self.backbone(x)
        with torch.set_grad_enabled(self.training):
            return self.head(f)


class Distilling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.t = nn.Linear(4, 4)
        self.s = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            t = self.t(x).softmax(-1)
        s = F.log_softmax(self.s(x), -1)
        return F.kl_div(s, t, reduction="batchmean") + s.mean().detach()


class CheckpointedBlocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 4)) for _ in range(2)]
        )
        self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU())

    def forward(self, x: Any) -> Any:
        for b in self.blocks:
            x = checkpoint(b, x, use_reentrant=False)
        return checkpoint_sequential(self.seq, 2, x, use_reentrant=False)  # type: ignore[no-untyped-call]  # torch does not say


class CheckpointedClosure(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.m = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:

        def custom(*inp: Any) -> Any:
            return self.m(self.l(inp[0]).relu()) + inp[1]

        return checkpoint(custom, x, x * 2, use_reentrant=False)


class CachedTable(nn.Module):
    """Swin / alibi style cache assigned in forward"""

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.cache: Any = None

    def forward(self, x: Any) -> Any:
        if self.cache is None or self.cache.size(0) < x.size(0):
            self.cache = torch.arange(x.size(0)).float().unsqueeze(1)
        return self.l(x) + self.cache[: x.size(0)]


class CachedRotation(nn.Module):
    inv: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.register_buffer("inv", 1.0 / 10 ** (torch.arange(0, 4, 2).float() / 4))
        self._cos: Any = None
        self._len = 0

    def _tables(self, n: Any) -> Any:
        if n > self._len:
            self._len = n
            t = torch.arange(n).type_as(self.inv)
            fr = torch.outer(t, self.inv)
            self._cos = torch.cat((fr, fr), -1).cos()
        return self._cos[:n]

    def forward(self, x: Any) -> Any:
        return self.l(x) * self._tables(x.shape[1])[None]


class KeptAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        a = self.l(x).softmax(-1)
        self.attn_weights = a.detach()
        return a @ x.T
