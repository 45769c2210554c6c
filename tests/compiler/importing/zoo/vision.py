"""Networks for images, in the idioms of the papers and tutorials that they come from."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint


class DenseLayer(nn.Module):
    def __init__(self, inputs: int, growth: int, rate: float) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
        self.drop_rate = float(rate)

    def bottleneck(self, inputs: list[Tensor]) -> Tensor:
        out: Tensor = self.conv1(self.relu1(self.norm1(torch.cat(inputs, 1))))
        return out

    def forward(self, input: Tensor | list[Tensor]) -> Tensor:
        previous = [input] if isinstance(input, Tensor) else input
        new: Tensor = self.conv2(self.relu2(self.norm2(self.bottleneck(previous))))
        if self.drop_rate > 0:
            new = F.dropout(new, p=self.drop_rate, training=self.training)
        return new


class DenseBlock(nn.ModuleDict):
    def __init__(self, layers: int, inputs: int, growth: int) -> None:
        super().__init__()
        for index in range(layers):
            self.add_module(f"denselayer{index + 1}", DenseLayer(inputs + index * growth, growth, 0.2))

    def forward(self, start: Tensor) -> Tensor:
        features = [start]
        for _, layer in self.items():  # noqa: PERF102  # as torchvision has it
            features.append(layer(features))
        return torch.cat(features, 1)


class DenseNet(nn.Module):
    """A dictionary of layers, each of which gets the list of everything before it."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential()
        self.features.add_module("conv0", nn.Conv2d(3, 8, 3, padding=1))
        self.features.add_module("denseblock1", DenseBlock(3, 8, 4))
        self.features.add_module("norm5", nn.BatchNorm2d(20))
        self.classifier = nn.Linear(20, 5)

    def forward(self, x: Tensor) -> Tensor:
        features = F.relu(self.features(x), inplace=True)
        out: Tensor = self.classifier(torch.flatten(F.adaptive_avg_pool2d(features, (1, 1)), 1))
        return out


class Conv(nn.Module):
    def __init__(self, inputs: int, outputs: int, **options: int | tuple[int, int]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, bias=False, **options)  # type: ignore[arg-type]  # sizes and strides
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class InceptionBlock(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branch1 = Conv(inputs, 4, kernel_size=1)
        self.branch5_1 = Conv(inputs, 3, kernel_size=1)
        self.branch5_2 = Conv(3, 4, kernel_size=5, padding=2)
        self.branch7_1 = Conv(inputs, 3, kernel_size=(1, 7), padding=(0, 3))
        self.branch7_2 = Conv(3, 4, kernel_size=(7, 1), padding=(3, 0))
        self.pool = Conv(inputs, 4, kernel_size=1)

    def _forward(self, x: Tensor) -> list[Tensor]:
        pooled = self.pool(F.avg_pool2d(x, kernel_size=3, stride=1, padding=1))
        return [self.branch1(x), self.branch5_2(self.branch5_1(x)), self.branch7_2(self.branch7_1(x)), pooled]

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(self._forward(x), 1)


class GoogLeNet(nn.Module):
    """An auxiliary head that only works while training."""

    def __init__(self, auxiliary: bool = True) -> None:
        super().__init__()
        self.stem = Conv(3, 6, kernel_size=3, stride=2, padding=1)
        self.inception1 = InceptionBlock(6)
        self.inception2 = InceptionBlock(16)
        self.aux = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)) if auxiliary else None
        self.dropout = nn.Dropout(0.4)
        self.fc = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        x = self.inception1(self.stem(x))
        aux = self.aux(x) if self.training and self.aux is not None else None
        x = self.inception2(x)
        x = self.fc(self.dropout(x.mean((2, 3))))
        if self.training and aux is not None:
            return x, aux
        return x


class DoubleConv(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.double_conv(x)
        return out


class Up(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(inputs, inputs // 2, kernel_size=2, stride=2)
        self.conv = DoubleConv(inputs, outputs)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        x1 = self.up(x1)
        dy, dx = x2.size()[2] - x1.size()[2], x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        out: Tensor = self.conv(torch.cat([x2, x1], dim=1))
        return out


class UNet(nn.Module):
    """Encoder and decoder lists; the skips wait in a Python list that is reversed."""

    def __init__(self) -> None:
        super().__init__()
        self.inc = DoubleConv(1, 4)
        self.downs = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), DoubleConv(4 * 2**i, 8 * 2**i)) for i in range(2))
        self.ups = nn.ModuleList([Up(16, 8), Up(8, 4)])
        self.outc = nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = [self.inc(x)]
        for down in self.downs:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for up, skip in zip(self.ups, reversed(skips), strict=True):
            x = up(x, skip)
        out: Tensor = self.outc(x)
        return out


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, reduction: int = 4) -> None:
        super().__init__()
        self.fc = nn.Sequential(
            nn.Linear(channels, channels // reduction, bias=False), nn.ReLU(inplace=True),
            nn.Linear(channels // reduction, channels, bias=False), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        b, c, _, _ = x.size()
        y = F.adaptive_avg_pool2d(x, 1).view(b, c)
        y = self.fc(y).view(b, c, 1, 1)
        out: Tensor = x * y.expand_as(x)
        return out


def drop_path(x: Tensor, rate: float = 0.0, training: bool = False, scale: bool = True) -> Tensor:
    if rate == 0.0 or not training:
        return x
    keep = 1 - rate
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    mask = x.new_empty(shape).bernoulli_(keep)
    if keep > 0.0 and scale:
        mask.div_(keep)
    return x * mask


class DropPath(nn.Module):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return drop_path(x, self.rate, self.training)


class MobileBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, expand: int, stride: int) -> None:
        super().__init__()
        hidden = inputs * expand
        self.use_residual = stride == 1 and inputs == outputs
        layers: list[nn.Module] = []
        if expand != 1:
            layers += [nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True)]
        layers += [nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden),
                   nn.SiLU(), SqueezeExcite(hidden), nn.Conv2d(hidden, outputs, 1, bias=False),
                   nn.BatchNorm2d(outputs)]  # fmt: skip
        self.conv = nn.Sequential(*layers)
        self.drop_path = DropPath(0.2)

    def forward(self, x: Tensor) -> Tensor:
        if self.use_residual:
            out: Tensor = x + self.drop_path(self.conv(x))
        else:
            out = self.conv(x)
        return out


class MobileNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), MobileBlock(8, 8, 1, 1), MobileBlock(8, 12, 2, 2), MobileBlock(12, 12, 2, 1)
        )
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(12, 5))

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        out: Tensor = self.classifier(x.mean([2, 3]))
        return out


class ConvNextBlock(nn.Module):
    """A learned scale, and a change of the axes' order and back."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.pwconv1 = nn.Linear(channels, 4 * channels)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(1e-6 * torch.ones(channels), requires_grad=True)
        self.drop_path = DropPath(0.1)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        x = self.dwconv(x).permute(0, 2, 3, 1)
        x = self.pwconv2(self.act(self.pwconv1(self.norm(x))))
        if self.gamma is not None:
            x = self.gamma * x
        out: Tensor = shortcut + self.drop_path(x.permute(0, 3, 1, 2))
        return out


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 2, 2), LayerNorm2d(8))
        self.stages = nn.ModuleList([nn.Sequential(ConvNextBlock(8), ConvNextBlock(8)) for _ in range(2)])
        self.downs = nn.ModuleList([self.stem, nn.Sequential(LayerNorm2d(8), nn.Conv2d(8, 8, 2, 2))])
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        for i in range(2):
            x = self.stages[i](self.downs[i](x))
        out: Tensor = self.head(x.mean([-2, -1]))
        return out


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


def channel_shuffle(x: Tensor, groups: int) -> Tensor:
    batch, channels, height, width = x.size()
    x = x.view(batch, groups, channels // groups, height, width)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(batch, channels, height, width)


class ShuffleNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.branch1 = nn.Sequential(nn.Conv2d(8, 8, 3, 2, 1, groups=8), nn.BatchNorm2d(8))
        self.branch2 = nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(inplace=True))
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.branch1(self.conv1(x))
        x1, x2 = x.chunk(2, dim=1)
        x = channel_shuffle(torch.cat((x1, self.branch2(x2)), dim=1), 2)
        out: Tensor = self.fc(x.mean([2, 3]))
        return out


class Checkpointed(nn.Module):
    """Activations of some blocks are computed again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.GELU()) for _ in range(3)])
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if i > 0 else block(x)
        out: Tensor = self.head(x.flatten(2).mean(-1))
        return out


class FeaturePyramid(nn.Module):
    """Several feature maps by name, as detectors want them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.ModuleDict({"c1": nn.Conv2d(3, 4, 3, 2, 1), "c2": nn.Conv2d(4, 6, 3, 2, 1)})
        self.lateral = nn.ModuleList([nn.Conv2d(4, 5, 1), nn.Conv2d(6, 5, 1)])
        self.smooth = nn.ModuleList([nn.Conv2d(5, 5, 3, padding=1) for _ in range(2)])

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        maps = {}
        for name, layer in self.body.items():
            x = F.relu(layer(x))
            maps[name] = x
        names, values = list(maps), list(maps.values())
        last = self.lateral[-1](values[-1])
        results = [self.smooth[-1](last)]
        for i in range(len(values) - 2, -1, -1):
            lateral = self.lateral[i](values[i])
            last = lateral + F.interpolate(last, size=lateral.shape[-2:], mode="nearest")
            results.insert(0, self.smooth[i](last))
        return dict(zip(names, results, strict=True))


class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.localization = nn.Sequential(nn.Conv2d(1, 4, 5), nn.MaxPool2d(2, stride=2), nn.ReLU(True))
        self.fc_loc = nn.Sequential(nn.Linear(4 * 4 * 4, 8), nn.ReLU(True), nn.Linear(8, 6))
        last = self.fc_loc[2]
        assert isinstance(last, nn.Linear)
        last.weight.data.zero_()
        last.bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))
        self.fc = nn.Linear(144, 3)

    def stn(self, x: Tensor) -> Tensor:
        xs = self.localization(x).view(-1, 4 * 4 * 4)
        theta = self.fc_loc(xs).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)  # type: ignore[arg-type]  # a size is a list to torch
        return F.grid_sample(x, grid, align_corners=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stn(x)
        x = self.fc(x.view(x.size(0), -1))
        return F.log_softmax(x, dim=1)


class Discriminator(nn.Module):
    """Spectral and weight norm are parametrizations: the weight is computed when it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = spectral_norm(nn.Conv2d(1, 4, 3, 2, 1))
        self.conv2 = weight_norm(nn.Conv2d(4, 8, 3, 2, 1))
        self.fc = nn.Linear(8 * 2 * 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.leaky_relu(self.conv1(x), 0.2)
        x = F.leaky_relu(self.conv2(x), 0.2)
        out: Tensor = self.fc(x.view(x.shape[0], -1)).squeeze(1)
        return out


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.init_size = 4
        self.l1 = nn.Sequential(nn.Linear(6, 8 * self.init_size**2))
        self.conv_blocks = nn.Sequential(
            nn.BatchNorm2d(8), nn.Upsample(scale_factor=2), nn.Conv2d(8, 4, 3, stride=1, padding=1),
            nn.BatchNorm2d(4, 0.8), nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(4, 1, 3, padding=1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, z: Tensor) -> Tensor:
        out = self.l1(z)
        out = out.view(out.shape[0], 8, self.init_size, self.init_size)
        image: Tensor = self.conv_blocks(out)
        return image


class GAN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.generator = Generator()
        self.discriminator = Discriminator()

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        fake = self.generator(z)
        return fake, self.discriminator(fake)


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(36, 16)
        self.fc21 = nn.Linear(16, 4)
        self.fc22 = nn.Linear(16, 4)
        self.fc3 = nn.Linear(4, 16)
        self.fc4 = nn.Linear(16, 36)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu: Tensor, logvar: Tensor) -> Tensor:
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z: Tensor) -> Tensor:
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mu, logvar = self.encode(x.view(-1, 36))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


class VQVAE(nn.Module):
    """The nearest entry of a codebook, and gradients that go straight through."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv2d(1, 4, 3, 2, 1)
        self.codebook = nn.Embedding(6, 4)
        self.codebook.weight.data.uniform_(-1 / 6, 1 / 6)
        self.decoder = nn.ConvTranspose2d(4, 1, 4, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.encoder(x).permute(0, 2, 3, 1).contiguous()
        flat = z.view(-1, 4)
        distances = (
            torch.sum(flat**2, dim=1, keepdim=True)
            + torch.sum(self.codebook.weight**2, dim=1)
            - 2 * torch.matmul(flat, self.codebook.weight.t())
        )
        index = torch.argmin(distances, dim=1).unsqueeze(1)
        one_hot = torch.zeros(index.shape[0], 6, device=x.device)
        one_hot.scatter_(1, index, 1)
        quantized = torch.matmul(one_hot, self.codebook.weight).view(z.shape)
        loss = F.mse_loss(quantized, z.detach()) + 0.25 * F.mse_loss(quantized.detach(), z)
        quantized = z + (quantized - z).detach()
        return loss, self.decoder(quantized.permute(0, 3, 1, 2).contiguous())


class TiedAutoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(12, 5)
        self.bias = nn.Parameter(torch.zeros(12))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(torch.sigmoid(self.encoder(x)), self.encoder.weight.t(), self.bias)


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.PReLU(), nn.Linear(8, 4))

    def embed(self, x: Tensor) -> Tensor:
        return F.normalize(self.net(x), dim=-1)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.einsum("nd,nd->n", self.embed(a), self.embed(b))


class TimestepEmbedding(nn.Module):
    freqs: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.register_buffer("freqs", torch.exp(-9.2 * torch.arange(half) / half), persistent=False)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, t: Tensor) -> Tensor:
        args = t[:, None].float() * self.freqs[None]
        out: Tensor = self.mlp(torch.cat([torch.cos(args), torch.sin(args)], dim=-1))
        return out


class Diffusion(nn.Module):
    """Scale and shift from the time step, group norm, and attention over pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.time = TimestepEmbedding(8)
        self.conv_in = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.film = nn.Linear(8, 16)
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)
        self.conv_out = nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor, *, scale: float = 1.0) -> Tensor:
        h = self.conv_in(x)
        shift, gain = self.film(self.time(t))[:, :, None, None].chunk(2, dim=1)
        h = F.silu(self.norm(h) * (1 + gain) + shift)
        b, c, *size = h.shape
        flat = h.reshape(b, c, -1).transpose(1, 2)
        out, _ = self.attn(flat, flat, flat)
        h = h + out.transpose(1, 2).reshape(b, c, *size) * scale
        result: Tensor = self.conv_out(h)
        return result
