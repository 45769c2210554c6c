"""Networks that keep something, or are called in a way that torch does not expect."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


class EMACodebook(nn.Module):
    """A codebook that training moves, in buffers and without gradients."""

    cluster_size: Any
    embed_avg: Any

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.embedding.weight.requires_grad_(False)
        self.register_buffer("cluster_size", torch.zeros(5))
        self.register_buffer("embed_avg", torch.randn(5, 3))
        self.pre, self.post = nn.Conv1d(2, 3, 1), nn.Conv1d(3, 2, 1)

    def forward(self, x: Any) -> Any:
        z = self.pre(x).permute(0, 2, 1).contiguous()
        flat = z.view(-1, 3)
        distances = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.embedding.weight.t()
        indices = torch.argmin(distances + self.embedding.weight.pow(2).sum(1), dim=1).unsqueeze(1)
        encodings = torch.zeros(indices.shape[0], 5, device=x.device)
        encodings.scatter_(1, indices, 1)
        quantized = torch.matmul(encodings, self.embedding.weight).view(z.shape)
        if self.training:
            with torch.no_grad():
                self.cluster_size = self.cluster_size * 0.9 + 0.1 * encodings.sum(0)
                n = self.cluster_size.sum()
                size = (self.cluster_size + 1e-5) / (n + 5 * 1e-5) * n
                self.embed_avg = self.embed_avg * 0.9 + 0.1 * torch.matmul(encodings.t(), flat)
                self.embedding.weight.data.copy_(self.embed_avg / size.unsqueeze(1))
        loss = 0.25 * F.mse_loss(quantized.detach(), z)
        quantized = z + (quantized - z).detach()
        probs = encodings.mean(0)
        perplexity = torch.exp(-torch.sum(probs * torch.log(probs + 1e-10)))
        return loss, self.post(quantized.permute(0, 2, 1).contiguous()), perplexity


class ByOthers(nn.Module):
    """Children called by other means than ``self.child(x)``."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.d = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh())
        self.names = ["a", "b"]

    def forward(self, x: Tensor) -> Any:
        x = F.linear(x, self.a.weight, self.a.bias)
        x = self.b.forward(x)
        x = getattr(self, self.names[0])(x) + nn.Module.__call__(self.b, x)
        x = checkpoint(self.c, x, use_reentrant=False)
        for name, layer in self.d.named_children():
            x = layer(x) if name != "1" else x
        first: Any = self.d[0]
        return torch.matmul(x, first.weight.t())


class Sequenced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.ReLU()) for _ in range(4)))

    def forward(self, x: Tensor) -> Any:
        sequential: Any = checkpoint_sequential
        return sequential(self.blocks, 2, x, use_reentrant=False)


class Halved(nn.Module):
    """Only a part of it computes under an autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.inner, self.after = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        x = self.before(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = self.inner(x)
        return self.after(x.float())


class Exact(nn.Module):
    """Leaves an autocast that is not there: what norms and losses of large models do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.weight = nn.Linear(4, 4), nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Any:
        x = self.layer(x)
        with torch.autocast(device_type="cpu", enabled=False):
            x = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (self.weight * x).to(x.dtype)


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, low: Any, high: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.bounds = low, high
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        low, high = ctx.bounds
        return grads[0] * ((x >= low) & (x <= high)) * 0.5, None, None


class Quantizer(nn.Module):
    """Rounds in front, goes straight through behind."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.step = nn.Linear(4, 4), nn.Parameter(torch.tensor(0.1))

    def forward(self, x: Tensor) -> Any:
        x = Clamp.apply(self.linear(x), -1.0, 1.0)  # type: ignore[no-untyped-call]  # torch does not say
        scaled = x / self.step
        rounded = (scaled.round() - scaled).detach() + scaled
        return rounded * self.step


class Slices(nn.Module):
    """Writes into parts of a tensor that it makes."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(3)])

    def forward(self, x: Tensor) -> Any:
        out = torch.empty_like(x)
        out[:, ::2] = x[:, ::2] * self.lists[0][::2]
        out[:, 1::2] = x[:, 1::2].neg()
        out[..., -1] += self.lists[1].sum()
        out[x > 1] = 0.5
        half = x.shape[1] // 2
        left, right = out[:, :half], out[:, half:]
        return torch.cat((-right, left), dim=-1) + sum(p.mean() for p in self.lists), out.clone().fill_(2.0)


class Counting(nn.Module):
    """Counts its calls in a Python number, and changes with it: only closed can it be right."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        self.calls += 1
        return self.layer(x) / self.calls


class Around(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.before, self.inner, self.after = nn.Linear(4, 4), inner, nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        return self.after(self.inner(self.before(x)))


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.inner[0].register_forward_hook(lambda _m, _a, out: out * 2)

    def forward(self, x: Tensor) -> Any:
        return self.inner(x) + 1


class MixStyle(nn.Module):
    """Decides by a number that Python draws for each call whether it mixes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        x = self.layer(x)
        if not self.training:
            return x
        perm = torch.randperm(x.size(0))
        lam = torch.distributions.Uniform(0.2, 0.8).sample((x.size(0), 1))
        return x * lam + x[perm] * (1 - lam)


class LayerDrop(nn.Module):
    """Leaves layers out as Python's random numbers tell: a drawing would leave out the same ones for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(6)])

    def forward(self, x: Tensor) -> Any:
        for layer in self.layers:
            if self.training and random.random() < 0.5:
                continue
            x = layer(x)
        return x
