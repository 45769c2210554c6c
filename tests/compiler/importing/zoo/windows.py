"""Transformers for images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.compiler.importing.zoo.vision import DropPath


class PatchEmbed(nn.Module):
    def __init__(self, size: int, patch: int, width: int) -> None:
        super().__init__()
        self.size = (size, size)
        self.patches = (size // patch) ** 2
        self.proj = nn.Conv2d(3, width, patch, patch)

    def forward(self, x: Tensor) -> Tensor:
        _, _, h, w = x.shape
        assert (h, w) == self.size, f"Input {h}×{w} does not fit {self.size}."
        out: Tensor = self.proj(x).flatten(2).transpose(1, 2)
        return out


class ViTAttention(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.num_heads = heads
        self.scale = (width // heads) ** -0.5
        self.fused = fused
        self.qkv = nn.Linear(width, 3 * width)
        self.attn_drop = nn.Dropout(0.1)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if self.fused:
            x = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_drop.p if self.training else 0.0)
        else:
            attn = self.attn_drop((q * self.scale @ k.transpose(-2, -1)).softmax(dim=-1))
            x = attn @ v
        out: Tensor = self.proj(x.transpose(1, 2).reshape(B, N, C))
        return out


class ViTBlock(nn.Module):
    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = ViTAttention(width, heads, fused)
        self.drop_path1 = DropPath(0.1)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path1(self.attn(self.norm1(x)))
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class ViT(nn.Module):
    def __init__(self, fused: bool = True) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed(8, 4, 8)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.pos_embed = nn.Parameter(torch.randn(1, 1 + self.patch_embed.patches, 8) * 0.02)
        self.blocks = nn.Sequential(*[ViTBlock(8, 2, fused) for _ in range(2)])
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward_features(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x)
        cls = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat((cls, x), dim=1) + self.pos_embed
        out: Tensor = self.norm(self.blocks(x))
        return out

    def forward(self, x: Tensor) -> Tensor:
        x = self.forward_features(x)
        out: Tensor = self.head(x[:, 0])
        return out


def window_partition(x: Tensor, size: int) -> Tensor:
    B, H, W, C = x.shape
    x = x.view(B, H // size, size, W // size, size, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, size, size, C)


def window_reverse(windows: Tensor, size: int, H: int, W: int) -> Tensor:
    B = int(windows.shape[0] / (H * W / size / size))
    x = windows.view(B, H // size, W // size, size, size, -1)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(B, H, W, -1)


class WindowAttention(nn.Module):
    relative_position_index: Tensor

    def __init__(self, width: int, window: int, heads: int) -> None:
        super().__init__()
        self.window_size = (window, window)
        self.num_heads = heads
        self.relative_position_bias_table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        coords = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        relative = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous() + window - 1
        relative[:, :, 0] *= 2 * window - 1
        self.register_buffer("relative_position_index", relative.sum(-1))
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = q @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        size = self.window_size[0] * self.window_size[1]
        attn = attn + bias.view(size, size, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.num_heads, N, N)
        x = (self.softmax(attn) @ v).transpose(1, 2).reshape(B_, N, C)
        out: Tensor = self.proj(x)
        return out


class SwinBlock(nn.Module):
    def __init__(self, width: int, size: int, window: int, shift: int) -> None:
        super().__init__()
        self.size, self.window, self.shift = (size, size), window, shift
        self.norm1 = nn.LayerNorm(width)
        self.attn = WindowAttention(width, window, 2)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        mask = None
        if shift > 0:
            image = torch.zeros((1, size, size, 1))
            parts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            for index, (h, w) in enumerate((h, w) for h in parts for w in parts):
                image[:, h, w, :] = index
            windows = window_partition(image, window).view(-1, window * window)
            mask = windows.unsqueeze(1) - windows.unsqueeze(2)
            mask = mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0)
        self.register_buffer("attn_mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        H, W = self.size
        B, L, C = x.shape
        assert L == H * W, "input feature has wrong size"
        shortcut = x
        x = self.norm1(x).view(B, H, W, C)
        shifted = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2)) if self.shift > 0 else x
        windows = window_partition(shifted, self.window).view(-1, self.window * self.window, C)
        windows = self.attn(windows, mask=self.attn_mask).view(-1, self.window, self.window, C)
        shifted = window_reverse(windows, self.window, H, W)
        x = torch.roll(shifted, shifts=(self.shift, self.shift), dims=(1, 2)) if self.shift > 0 else shifted
        x = shortcut + x.view(B, H * W, C)
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class PatchMerging(nn.Module):
    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = (size, size)
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)
        self.norm = nn.LayerNorm(4 * width)

    def forward(self, x: Tensor) -> Tensor:
        H, W = self.size
        B, _, C = x.shape
        assert H % 2 == 0, f"x size ({H}*{W}) are not even."
        x = x.view(B, H, W, C)
        x = torch.cat([x[:, 0::2, 0::2, :], x[:, 1::2, 0::2, :], x[:, 0::2, 1::2, :], x[:, 1::2, 1::2, :]], -1)
        out: Tensor = self.reduction(self.norm(x.view(B, -1, 4 * C)))
        return out


class Swin(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch_embed = PatchEmbed(16, 2, 8)
        self.blocks = nn.ModuleList([SwinBlock(8, 8, 4, shift) for shift in (0, 2)])
        self.merge = PatchMerging(8, 8)
        self.norm = nn.LayerNorm(16)
        self.avgpool = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch_embed(x)
        for block in self.blocks:
            x = block(x)
        x = self.avgpool(self.norm(self.merge(x)).transpose(1, 2))
        out: Tensor = self.head(torch.flatten(x, 1))
        return out
