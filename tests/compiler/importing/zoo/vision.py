"""Networks for images, in the idioms of the papers and tutorials that they come from."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
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
