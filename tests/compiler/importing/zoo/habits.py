"""Single habits of people who write networks."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

logger = logging.getLogger(__name__)


class Flexible(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        x = inputs[0]
        for y in inputs[1:]:
            x = x + self.b(y)
        scale = kwargs.get("scale", 1.0)
        if kwargs.pop("double", False):
            x = x * 2
        return self.a(x) * scale


class CallsFlexible(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = Flexible()
        self.g = Flexible()

    def forward(self, x: Any, y: Any) -> Any:
        return self.g(self.f(x, y, y, scale=0.5), double=True)


class Activation(Enum):
    RELU = "relu"
    TANH = "tanh"


class Enumerated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = Activation.TANH
        self.lin = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        match self.act:
            case Activation.RELU:
                return self.lin(x).relu()
            case Activation.TANH:
                return self.lin(x).tanh()


class Modalities(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc = nn.ModuleDict({"img": nn.Linear(4, 3), "txt": nn.Linear(5, 3)})
        self.params = nn.ParameterDict({"a": nn.Parameter(torch.ones(3)), "b": nn.Parameter(torch.zeros(3))})
        self.w = nn.ParameterList([nn.Parameter(torch.randn(3, 3)) for _ in range(2)])
        self.choices = nn.ModuleDict({"lrelu": nn.LeakyReLU(), "prelu": nn.PReLU()})

    def forward(self, inputs: Any, act: str = "prelu") -> Any:
        outs = {k: self.enc[k](v) for k, v in inputs.items()}
        x = sum(outs.values()) / len(outs)
        for i, w in enumerate(self.w):
            x = x @ w + w.sum() * i
        x = x * self.params["a"] + self.params["b"]
        return {"fused": self.choices[act](x), **outs}


class Fourier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(2, 2, 3, dtype=torch.cfloat))
        self.c = nn.Conv1d(2, 2, 1)

    def forward(self, x: Any) -> Any:
        B = x.shape[0]
        ft = torch.fft.rfft(x)
        out = torch.zeros(B, 2, x.size(-1) // 2 + 1, device=x.device, dtype=torch.cfloat)
        out[:, :, :3] = torch.einsum("bix,iox->box", ft[:, :, :3], self.w)
        y = torch.fft.irfft(out, n=x.size(-1))
        return F.gelu(y + self.c(x))


class Spectrogram(nn.Module):
    win: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("win", torch.hann_window(8))
        self.fb = nn.Linear(5, 4)

    def forward(self, x: Any) -> Any:
        s = torch.stft(x, 8, 4, window=self.win, return_complex=True)
        return self.fb(s.abs().pow(2).transpose(1, 2)).clamp(min=1e-05).log()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, k: Any) -> Any:
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (g * 3 * x * ctx.k, None)


class Squaring(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return Square.apply(self.l(x), 2.0)  # type: ignore[no-untyped-call]  # torch does not say


class AroundSquaring(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c = Squaring()
        self.l = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.l(self.c(x).relu())


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return -g


class Adversarial(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Linear(4, 4)
        self.c = nn.Linear(4, 2)
        self.d = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        f = self.f(x)
        return (self.c(f), self.d(Reversal.apply(f)))  # type: ignore[no-untyped-call]  # torch does not say


class Talkative(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.verbose = True
        self._warned = False

    def forward(self, x: Any) -> Any:
        if self.verbose:
            print("x", x.shape, f"{x.shape[0]:3d}", x.dtype, x.device)
        logger.warning("shape %s", x.shape)
        assert x.shape[-1] == 4, f"bad {x.shape}"
        assert x.ndim == 2
        assert x.size(0) > 0
        if x.dim() != 2:
            raise ValueError(f"Expected 2D {tuple(x.shape)}")
        return self.l(x)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)

    def forward(self, x: Any, mask: Any) -> Any:
        y = self.l(x)
        sel = y[mask]
        z = torch.zeros_like(y)
        z[mask] = sel * 2
        return (z, sel.mean())


class Normalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c = nn.utils.parametrizations.spectral_norm(nn.Conv1d(2, 2, 3))
        self.d = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.e = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))

    def forward(self, x: Any) -> Any:
        return self.c(self.e(self.d(x)))


class Symmetric(nn.Module):
    def forward(self, X: Any) -> Any:
        return X.triu() + X.triu(1).transpose(-1, -2)


class SymmetricWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)
        nn.utils.parametrize.register_parametrization(self.l, "weight", Symmetric())

    def forward(self, x: Any) -> Any:
        return self.l(x)


class NumPyNumbers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.steps = np.linspace(0, 1, 3)
        self.scale = np.float32(0.5)

    def forward(self, x: Any) -> Any:
        for s in self.steps:
            x = x + self.l(x) * float(s)
        return x * np.sqrt(2.0) * self.scale * np.prod(x.shape[1:])


class DropPath(nn.Module):
    def __init__(self, p: Any) -> None:
        super().__init__()
        self.drop_prob = p

    def forward(self, x: Any) -> Any:
        if self.drop_prob == 0.0 or not self.training:
            return x
        keep = 1 - self.drop_prob
        r = x.new_empty((x.shape[0],) + (1,) * (x.ndim - 1)).bernoulli_(keep)
        if keep > 0.0:
            r.div_(keep)
        return x * r


class StochasticDepth(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.d = nn.ModuleList([DropPath(p.item()) for p in torch.linspace(0, 0.3, 3)])
        self.l = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        for layer, d in zip(self.l, self.d, strict=False):
            x = x + d(layer(x))
        return x


class Distributions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e = nn.Linear(4, 4)
        self.d = nn.Linear(2, 4)

    def forward(self, x: Any) -> Any:
        mu, lv = self.e(x).chunk(2, -1)
        dist = torch.distributions.Normal(mu, (0.5 * lv).exp())
        z = dist.rsample()
        kl = torch.distributions.kl_divergence(
            dist, torch.distributions.Normal(torch.zeros_like(mu), torch.ones_like(lv))
        )
        return (self.d(z), kl.sum(-1).mean())


class RoutedExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Linear(4, 3)
        self.e = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        w, i = self.g(x).softmax(-1).topk(2, -1)
        out = torch.zeros_like(x)
        for k, ex in enumerate(self.e):
            b, n = torch.where(i == k)
            out.index_add_(0, b, ex(x[b]) * w[b, n, None])
        return out


class HitExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Linear(4, 3)
        self.e = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        b, s, d = x.shape
        x = x.view(-1, d)
        w = F.softmax(self.g(x), dim=1, dtype=torch.float)
        w, sel = torch.topk(w, 2, dim=-1)
        w /= w.sum(dim=-1, keepdim=True)
        w = w.to(x.dtype)
        out = torch.zeros((b * s, d), dtype=x.dtype, device=x.device)
        mask = F.one_hot(sel, num_classes=3).permute(2, 1, 0)
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
        for ei in hit:
            ex = self.e[ei]
            idx, tx = torch.where(mask[ei].squeeze(0))
            cur = x[None, tx].reshape(-1, d)
            out.index_add_(0, tx, (ex(cur) * w[tx, idx, None]).to(x.dtype))
        return out.reshape(b, s, d)


class Deciding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pre = nn.Linear(4, 4)
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        x = self.pre(x)
        if x.sum() > 0:
            return self.a(x)
        return self.b(x)
