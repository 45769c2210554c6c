"""Detectors with lists of feature maps, and a diffusion network with every kind of conditioning."""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

logger = logging.getLogger(__name__)


class AnchorGenerator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sizes = ((4.0,), (8.0,))
        self.cell = [torch.tensor([[-s, -s, s, s] for s in ss]) / 2 for ss in self.sizes]

    def num(self) -> Any:
        return [len(c) for c in self.cell]

    def grid(self, sizes: Any, strides: Any) -> Any:
        out = []
        for (h, w), (sh, sw), base in zip(sizes, strides, self.cell, strict=False):
            sx = torch.arange(0, w, dtype=torch.int32) * sw
            sy = torch.arange(0, h, dtype=torch.int32) * sh
            yy, xx = torch.meshgrid(sy, sx, indexing="ij")
            yy, xx = (yy.reshape(-1), xx.reshape(-1))
            shifts = torch.stack((xx, yy, xx, yy), dim=1)
            out.append((shifts.view(-1, 1, 4) + base.view(1, -1, 4)).reshape(-1, 4))
        return out

    def forward(self, image: Any, feats: Any) -> Any:
        sizes = [f.shape[-2:] for f in feats]
        ims = image.shape[-2:]
        strides = [
            [
                torch.empty((), dtype=torch.int64).fill_(ims[0] // g[0]),
                torch.empty((), dtype=torch.int64).fill_(ims[1] // g[1]),
            ]
            for g in sizes
        ]
        a = self.grid(sizes, strides)
        anchors = [list(a) for _ in range(image.shape[0])]
        return [torch.cat(x) for x in anchors]


class RetinaHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())
        self.cls = nn.Conv2d(4, 3, 3, padding=1)
        self.reg = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, feats: Any) -> Any:
        cl, rg = ([], [])
        for f in feats:
            y = self.conv(f)
            c = self.cls(y)
            N, _, H, W = c.shape
            cl.append(c.view(N, -1, 3, H, W).permute(0, 3, 4, 1, 2).reshape(N, -1, 3))
            r = self.reg(y)
            rg.append(r.view(N, -1, 4, H, W).permute(0, 3, 4, 1, 2).reshape(N, -1, 4))
        return {"cls": torch.cat(cl, 1), "box": torch.cat(rg, 1)}


class RetinaNet(nn.Module):
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(3, 4, 3, 2, 1)
        self.c2 = nn.Conv2d(4, 4, 3, 2, 1)
        self.head = RetinaHead()
        self.anchors = AnchorGenerator()
        self.register_buffer("mean", torch.tensor([0.4, 0.5, 0.6]))
        self.std = [0.2, 0.3, 0.4]

    def normalize(self, image: Any) -> Any:
        if not image.is_floating_point():
            raise TypeError("float expected")
        dtype, device = (image.dtype, image.device)
        std = torch.as_tensor(self.std, dtype=dtype, device=device)
        return (image - self.mean[:, None, None]) / std[:, None, None]

    def forward(self, images: Any, targets: Any = None) -> Any:
        x = self.normalize(images)
        f1 = self.c1(x)
        f2 = self.c2(f1.relu())
        feats = OrderedDict([("0", f1), ("1", f2)])
        maps = list(feats.values())
        out = self.head(maps)
        anchors = self.anchors(images, maps)
        out["boxes"] = torch.stack([self.decode(d, a) for d, a in zip(out["box"], anchors, strict=False)])
        return out

    def decode(self, deltas: Any, boxes: Any) -> Any:
        w = boxes[:, 2] - boxes[:, 0]
        cx = boxes[:, 0] + 0.5 * w
        dx, dy, dw, dh = deltas.unbind(-1)
        dw = torch.clamp(dw, max=math.log(1000.0 / 16))
        return torch.stack([cx + dx * w, cx + dy, torch.exp(dw) * w, torch.exp(dh)], dim=1)


class YOLOHead(nn.Module):
    anchor: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.na, self.no = (2, 6)
        self.register_buffer("anchor", torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        self.m = nn.ModuleList(nn.Conv2d(4, 12, 1) for _ in range(2))
        self.stride = [2, 4]
        self.grid = [torch.zeros(1)] * 2

    def forward(self, x: Any) -> Any:
        z = []
        for i in range(2):
            x[i] = self.m[i](x[i])
            bs, _, ny, nx = x[i].shape
            x[i] = x[i].view(bs, self.na, self.no, ny, nx).permute(0, 1, 3, 4, 2).contiguous()
            if not self.training:
                yv, xv = torch.meshgrid([torch.arange(ny), torch.arange(nx)], indexing="ij")
                grid = torch.stack((xv, yv), 2).view((1, 1, ny, nx, 2)).float()
                y = x[i].sigmoid()
                y[..., 0:2] = (y[..., 0:2] * 2.0 - 0.5 + grid) * self.stride[i]
                y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchor.view(1, self.na, 1, 1, 2)
                z.append(y.view(bs, -1, self.no))
        return x if self.training else (torch.cat(z, 1), x)


class YOLO(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 4, 3, 2, 1)
        self.b = nn.Conv2d(4, 4, 3, 2, 1)
        self.detect = YOLOHead()

    def forward(self, x: Any) -> Any:
        p = []
        x = F.silu(self.a(x))
        p.append(x)
        x = F.silu(self.b(x))
        p.append(x)
        return self.detect(p)


def timestep_embedding(timesteps: Any, dim: Any, max_period: Any = 10000) -> Any:
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(start=0, end=half, dtype=torch.float32) / half).to(
        device=timesteps.device
    )
    args = timesteps[:, None].float() * freqs[None]
    emb = torch.cat([torch.cos(args), torch.sin(args)], dim=-1)
    if dim % 2:
        emb = torch.cat([emb, torch.zeros_like(emb[:, :1])], dim=-1)
    return emb


class TimestepBlock(nn.Module):
    pass


class TimestepSequential(nn.Sequential, TimestepBlock):
    def forward(self, x: Any, emb: Any = None, context: Any = None) -> Any:
        for layer in self:
            if isinstance(layer, TimestepBlock):
                x = layer(x, emb)
            elif isinstance(layer, CrossAttention):
                x = layer(x, context)
            else:
                x = layer(x)
        return x


class ResBlock(TimestepBlock):
    def __init__(self, c: Any, o: Any) -> None:
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(2, c), nn.SiLU(), nn.Conv2d(c, o, 3, padding=1))
        self.emb = nn.Sequential(nn.SiLU(), nn.Linear(8, 2 * o))
        self.out = nn.Sequential(nn.GroupNorm(2, o), nn.SiLU(), nn.Dropout(0.1), nn.Conv2d(o, o, 3, padding=1))
        self.skip = nn.Identity() if c == o else nn.Conv2d(c, o, 1)
        self.use_checkpoint = True

    def forward(self, x: Any, emb: Any) -> Any:
        if self.use_checkpoint:
            return checkpoint(self._forward, x, emb, use_reentrant=False)
        return self._forward(x, emb)

    def _forward(self, x: Any, emb: Any) -> Any:
        h = self.in_layers(x)
        e = self.emb(emb).type(h.dtype)
        while len(e.shape) < len(h.shape):
            e = e[..., None]
        norm, rest = (self.out[0], self.out[1:])
        scale, shift = torch.chunk(e, 2, dim=1)
        h = norm(h) * (1 + scale) + shift
        h = rest(h)
        return self.skip(x) + h


class CrossAttention(nn.Module):
    def __init__(self, c: Any) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, c)
        self.q = nn.Conv2d(c, c, 1)
        self.kv = nn.Linear(5, 2 * c)
        self.o = nn.Conv2d(c, c, 1)

    def forward(self, x: Any, context: Any) -> Any:
        b, c, h, w = x.shape
        q = self.q(self.norm(x)).reshape(b, c, h * w).permute(0, 2, 1)
        k, v = self.kv(context).chunk(2, dim=-1)
        a = torch.einsum("b i d, b j d -> b i j", q, k) * int(c) ** (-0.5)
        o = torch.einsum("bij,bjd->bid", a.softmax(dim=-1), v)
        return x + self.o(o.permute(0, 2, 1).reshape(b, c, h, w))


class Down(nn.Module):
    def __init__(self, c: Any) -> None:
        super().__init__()
        self.op = nn.Conv2d(c, c, 3, 2, 1)

    def forward(self, x: Any) -> Any:
        assert x.shape[1] == self.op.in_channels
        return self.op(x)


class Up(nn.Module):
    def __init__(self, c: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x: Any, output_size: Any = None) -> Any:
        assert x.shape[1] == 4
        if output_size is None:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        else:
            x = F.interpolate(x, size=output_size, mode="nearest")
        return self.conv(x)


class GuidedUNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time_embed = nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 8))
        self.label_emb = nn.Embedding(3, 8)
        self.input_blocks = nn.ModuleList([TimestepSequential(nn.Conv2d(1, 4, 3, padding=1))])
        self.input_blocks.append(TimestepSequential(ResBlock(4, 4), CrossAttention(4)))
        self.input_blocks.append(TimestepSequential(Down(4)))
        self.middle = TimestepSequential(ResBlock(4, 4), CrossAttention(4), ResBlock(4, 4))
        self.output_blocks = nn.ModuleList(
            [
                TimestepSequential(ResBlock(8, 4), Up(4)),
                TimestepSequential(ResBlock(8, 4), CrossAttention(4)),
                TimestepSequential(ResBlock(8, 4)),
            ]
        )
        self.out = nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.Conv2d(4, 1, 3, padding=1))

    @property
    def dtype(self) -> Any:
        return next(self.parameters()).dtype

    def forward(self, x: Any, timesteps: Any = None, context: Any = None, y: Any = None, **kwargs: Any) -> Any:
        hs = []
        emb = self.time_embed(timestep_embedding(timesteps, 6))
        if y is not None:
            assert y.shape[0] == x.shape[0]
            emb = emb + self.label_emb(y)
        h = x.type(self.dtype)
        for m in self.input_blocks:
            h = m(h, emb, context)
            hs.append(h)
        h = self.middle(h, emb, context)
        for m in self.output_blocks:
            h = torch.cat([h, hs.pop()], dim=1)
            h = m(h, emb, context)
        h = h.type(x.dtype)
        return self.out(h)
