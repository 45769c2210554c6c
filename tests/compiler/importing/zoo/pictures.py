"""Networks of images, once more and in other hands: what people publish beside a paper."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SkipUNet(nn.Module):
    """Skips in a list that is popped, sizes made equal by interpolation."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [2, 4, 6]
        self.downs = nn.ModuleList()
        self.ups = nn.ModuleList()
        before = 1
        for size in sizes:
            self.downs.append(self.block(before, size))
            before = size
        before = 12
        for size in reversed(sizes):
            self.ups.append(nn.ConvTranspose2d(before, size, 2, 2))
            self.ups.append(self.block(size * 2, size))
            before = size
        self.bottleneck = self.block(6, 12)
        self.final = nn.Conv2d(2, 1, 1)

    @staticmethod
    def block(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)
        )

    def forward(self, x: Tensor) -> Any:
        skips = []
        for down in self.downs:
            x = down(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottleneck(x)
        skips = skips[::-1]  # noqa: FURB187  # as many write it
        for index in range(0, len(self.ups), 2):
            x = self.ups[index](x)
            skip = skips[index // 2]
            if x.shape != skip.shape:
                x = F.interpolate(x, size=skip.shape[2:])
            x = self.ups[index + 1](torch.cat((skip, x), dim=1))
        return self.final(x)


def pair(value: Any) -> Any:
    return value if isinstance(value, tuple) else (value, value)


class PreNorm(nn.Module):
    def __init__(self, width: int, fn: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fn = fn

    def forward(self, x: Tensor, **kwargs: Any) -> Any:
        return self.fn(self.norm(x), **kwargs)


class HeadedAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.to_qkv = nn.Linear(width, width * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(width, width), nn.Dropout(0.1))

    def forward(self, x: Tensor) -> Any:
        b, n, _, h = *x.shape, self.heads
        q, k, v = (t.view(b, n, h, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        out = torch.einsum("bhij,bhjd->bhid", dots.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


class PatchViT(nn.Module):
    """Patches by reshape, a class token that is repeated, the pooling chosen by a string."""

    def __init__(self, pool: str = "cls") -> None:
        super().__init__()
        (h, w), (p1, p2) = pair(8), pair(4)
        self.patch = p1, p2
        self.to_patch = nn.Linear(p1 * p2, 8)
        self.pos_embedding = nn.Parameter(torch.randn(1, (h // p1) * (w // p2) + 1, 8))
        self.cls_token = nn.Parameter(torch.randn(1, 1, 8))
        self.layers = nn.ModuleList([])
        for _ in range(2):
            feed = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
            self.layers.append(nn.ModuleList([PreNorm(8, HeadedAttention(8, 2)), PreNorm(8, feed)]))
        self.pool = pool
        self.to_latent = nn.Identity()
        self.head = nn.Linear(8, 3)

    def forward(self, img: Tensor) -> Any:
        b, c, h, w = img.shape
        p1, p2 = self.patch
        assert h % p1 == 0 and w % p2 == 0, f"image {h} x {w} must be divisible by {self.patch}"  # noqa: PT018  # as people write it
        x = img.reshape(b, c, h // p1, p1, w // p2, p2).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
        x = self.to_patch(x)
        x = torch.cat((self.cls_token.repeat(b, 1, 1), x), dim=1)
        x += self.pos_embedding[:, : x.shape[1]]
        layers: Any = self.layers
        for attn, ff in layers:
            x = attn(x) + x
            x = ff(x) + x
        x = x.mean(dim=1) if self.pool == "mean" else x[:, 0]
        return self.head(self.to_latent(x))


class ShiftedWindows(nn.Module):
    """Windows that are rolled, with a mask that is made of slices for the size of each call."""

    def __init__(self, window: int = 4, shift: int = 2) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.qkv = nn.Linear(4, 12)
        self.proj = nn.Linear(4, 4)

    def mask(self, h: int, w: int, device: torch.device) -> Tensor:
        img = torch.zeros((1, h, w, 1), device=device)
        count = 0
        slices = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        for hs in slices:
            for ws in slices:
                img[:, hs, ws, :] = count
                count += 1
        win = self.cut(img).squeeze(-1)
        mask = win.unsqueeze(1) - win.unsqueeze(2)
        return mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)

    def cut(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        x = x.view(b, h // self.window, self.window, w // self.window, self.window, c)
        return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, self.window * self.window, c)

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        rolled = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2))
        q, k, v = self.qkv(self.cut(rolled)).split(c, dim=-1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(c)
        mask = self.mask(h, w, x.device)
        count = mask.shape[0]
        scores = (scores.view(b, count, *scores.shape[1:]) + mask).view(-1, *scores.shape[1:])
        out = self.proj(scores.softmax(-1) @ v)
        out = out.view(b, h // self.window, w // self.window, self.window, self.window, c)
        out = out.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return x + torch.roll(out, shifts=(self.shift, self.shift), dims=(1, 2))


class SinePositions(nn.Module):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        keep = ~mask
        y, z = keep.cumsum(1, dtype=torch.float32), keep.cumsum(2, dtype=torch.float32)
        y, z = y / (y[:, -1:, :] + 1e-6), z / (z[:, :, -1:] + 1e-6)
        steps = torch.arange(4, dtype=torch.float32, device=x.device)
        steps = 100 ** (2 * torch.div(steps, 2, rounding_mode="floor") / 4)
        a, b = y[:, :, :, None] / steps, z[:, :, :, None] / steps
        a = torch.stack((a[..., 0::2].sin(), a[..., 1::2].cos()), dim=4).flatten(3)
        b = torch.stack((b[..., 0::2].sin(), b[..., 1::2].cos()), dim=4).flatten(3)
        return torch.cat((a, b), dim=3).permute(0, 3, 1, 2)


class DETR(nn.Module):
    """Queries that look at an image, results in a dictionary, one for each layer."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1))
        self.position = SinePositions()
        self.query_embed = nn.Embedding(5, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.decoder = nn.ModuleList([layer, nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True)])
        self.class_embed = nn.Linear(8, 4)
        self.bbox_embed = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))

    def forward(self, images: Tensor, mask: Tensor | None = None) -> Any:
        src = self.backbone(images)
        if mask is None:
            mask = torch.zeros((images.shape[0], *images.shape[-2:]), dtype=torch.bool, device=images.device)
        mask = F.interpolate(mask[None].float(), size=src.shape[-2:]).to(torch.bool)[0]
        pos = self.position(src, mask).flatten(2).transpose(1, 2)
        memory = self.encoder(src.flatten(2).permute(0, 2, 1) + pos)
        hs = self.query_embed.weight.unsqueeze(0).expand(src.shape[0], -1, -1)
        states = []
        for layer in self.decoder:
            hs = layer(hs, memory)
            states.append(hs)
        stacked = torch.stack(states)
        logits, boxes = self.class_embed(stacked), self.bbox_embed(stacked).sigmoid()
        out = {"pred_logits": logits[-1], "pred_boxes": boxes[-1]}
        out["aux"] = [{"pred_logits": a, "pred_boxes": b} for a, b in zip(logits[:-1], boxes[:-1], strict=True)]
        return out


class ASPP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        rates = (1, 2)
        self.convs = nn.ModuleList([nn.Conv2d(4, 3, 3, padding=r, dilation=r) for r in rates])
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(4, 3, 1))
        self.project = nn.Conv2d(9, 4, 1)

    def forward(self, x: Tensor) -> Any:
        res = [conv(x).relu() for conv in self.convs]
        res += [F.interpolate(self.pool(x), size=x.shape[-2:], mode="bilinear", align_corners=False)]
        return self.project(torch.cat(res, 1))


class DeepLab(nn.Module):
    """Results of the size of the input, and a second head for training only."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, 2, 1)
        self.classifier = ASPP()
        self.aux = nn.Conv2d(4, 4, 1)

    def forward(self, x: Tensor) -> Any:
        shape = x.shape[-2:]
        features = self.stem(x)
        result = {"out": F.interpolate(self.classifier(features), size=shape, mode="bilinear", align_corners=False)}
        if self.training:
            result["aux"] = F.interpolate(self.aux(features), size=shape, mode="bilinear", align_corners=False)
        else:
            result["aux"] = result["out"] * 0
        return result


class SqueezeBlock(nn.Module):
    """Squeeze and excitation by functions, stochastic depth by a draw for each sample."""

    def __init__(self, width: int, survival: float) -> None:
        super().__init__()
        self.survival = survival
        self.conv = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.BatchNorm2d(width, momentum=None)
        self.reduce, self.expand = nn.Conv2d(width, 2, 1), nn.Conv2d(2, width, 1)

    def stochastic(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        keep = torch.rand(x.shape[0], 1, 1, 1, device=x.device) < self.survival
        return torch.div(x, self.survival) * keep

    def forward(self, inputs: Tensor) -> Tensor:
        x = F.silu(self.norm(self.conv(inputs)))
        squeezed = F.adaptive_avg_pool2d(x, 1)
        x = torch.sigmoid(self.expand(F.silu(self.reduce(squeezed)))) * x
        return self.stochastic(x) + inputs


class EfficientNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, 2, 1)
        self.blocks = nn.ModuleList([SqueezeBlock(4, 1 - 0.2 * i) for i in range(1, 3)])
        self.drop, self.fc = nn.Dropout(0.2), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Any:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = F.adaptive_avg_pool2d(x, 1).squeeze(-1).squeeze(-1)
        return self.fc(self.drop(x))


class SpectralGAN(nn.Module):
    """A discriminator with spectral norm, and its penalty's part: features of two images."""

    def __init__(self) -> None:
        super().__init__()
        sn = nn.utils.parametrizations.spectral_norm
        self.conv = sn(nn.Conv2d(1, 4, 3, 2, 1))
        self.fc = nn.utils.parametrizations.weight_norm(nn.Linear(64, 1))
        self.embed = nn.Embedding(3, 64)

    def features(self, x: Tensor) -> Tensor:
        return F.leaky_relu(self.conv(x), 0.2).flatten(1)

    def forward(self, real: Tensor, fake: Tensor, label: Tensor) -> Any:
        alpha = torch.rand(real.size(0), 1, 1, 1, device=real.device).expand_as(real)
        mixed = alpha * real + (1 - alpha) * fake
        found = [self.features(x) for x in (real, fake, mixed)]
        return [self.fc(f) + (f * self.embed(label)).sum(1, keepdim=True) for f in found]


class FourierLayer(nn.Module):
    """Learns in the frequencies of an image, with complex weights."""

    def __init__(self, modes: int = 2) -> None:
        super().__init__()
        self.modes = modes
        self.weights = nn.Parameter(torch.rand(2, 3, modes, modes, dtype=torch.cfloat) / 6)
        self.w = nn.Conv2d(2, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        b = x.shape[0]
        ft = torch.fft.rfft2(x)
        out = torch.zeros(b, 3, x.size(-2), x.size(-1) // 2 + 1, dtype=torch.cfloat, device=x.device)
        out[:, :, : self.modes, : self.modes] = torch.einsum(
            "bixy,ioxy->boxy", ft[:, :, : self.modes, : self.modes], self.weights
        )
        return F.gelu(torch.fft.irfft2(out, s=(x.size(-2), x.size(-1))) + self.w(x))


class NeuralField(nn.Module):
    """Double precision, coordinates made on the way, Fourier features in a buffer."""

    B: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("B", torch.randn(2, 4, dtype=torch.float64))
        act = partial(nn.Softplus, beta=100)
        self.net = nn.Sequential(nn.Linear(8, 8), act(), nn.Linear(8, 1)).double()

    def forward(self, image: Tensor) -> Any:
        h, w = image.shape[-2:]
        ys, xs = torch.linspace(-1, 1, h, dtype=torch.float64), torch.linspace(-1, 1, w, dtype=torch.float64)
        grid = torch.stack(torch.meshgrid(ys, xs, indexing="ij"), dim=-1)
        proj = 2 * math.pi * grid @ self.B
        found = self.net(torch.cat([proj.sin(), proj.cos()], -1)).squeeze(-1)
        return F.mse_loss(found.expand(image.shape[0], h, w), image.squeeze(1).double()), found
