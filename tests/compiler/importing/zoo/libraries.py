"""Networks in the manner of the libraries of vision models, with what these have in common."""

# mypy: disable-error-code="no-untyped-call, operator, union-attr, index, arg-type, assignment, misc, call-overload, attr-defined"
# People leave out what a type checker would ask for, and so do these.

from __future__ import annotations

import math
from collections import OrderedDict
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils.checkpoint as cp
from torch import nn


def drop_path(x: Any, drop_prob: Any = 0.0, training: Any = False, scale_by_keep: Any = True) -> Any:
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
    if keep_prob > 0.0 and scale_by_keep:
        random_tensor.div_(keep_prob)
    return x * random_tensor


class DropPath(nn.Module):
    def __init__(self, drop_prob: Any = 0.0, scale_by_keep: Any = True) -> None:
        super().__init__()
        self.drop_prob, self.scale_by_keep = (drop_prob, scale_by_keep)

    def forward(self, x: Any) -> Any:
        return drop_path(x, self.drop_prob, self.training, self.scale_by_keep)

    def extra_repr(self) -> Any:
        return f"drop_prob={round(self.drop_prob, 3):0.3f}"


class BatchNormAct2d(nn.BatchNorm2d):
    def __init__(
        self,
        num_features: Any,
        eps: Any = 1e-05,
        momentum: Any = 0.1,
        affine: Any = True,
        track_running_stats: Any = True,
        apply_act: Any = True,
        act_layer: Any = nn.ReLU,
        inplace: Any = True,
        drop_layer: Any = None,
    ) -> None:
        super().__init__(
            num_features, eps=eps, momentum=momentum, affine=affine, track_running_stats=track_running_stats
        )
        self.drop = drop_layer() if drop_layer is not None else nn.Identity()
        self.act = act_layer(inplace=inplace) if apply_act else nn.Identity()

    def forward(self, x: Any) -> Any:
        torch._assert(x.ndim == 4, f"expected 4D input (got {x.ndim}D input)")
        exponential_average_factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            exponential_average_factor = (
                1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
            )
        bn_training = True if self.training else self.running_mean is None and self.running_var is None
        x = F.batch_norm(
            x,
            self.running_mean if not self.training or self.track_running_stats else None,
            self.running_var if not self.training or self.track_running_stats else None,
            self.weight,
            self.bias,
            bn_training,
            exponential_average_factor,
            self.eps,
        )
        return self.act(self.drop(x))


class StdConv2d(nn.Conv2d):
    def __init__(self, *a: Any, eps: Any = 1e-06, **k: Any) -> None:
        super().__init__(*a, **k)
        self.eps = eps

    def forward(self, x: Any) -> Any:
        weight = F.batch_norm(
            self.weight.reshape(1, self.out_channels, -1), None, None, training=True, momentum=0.0, eps=self.eps
        ).reshape_as(self.weight)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


def pad_same(x: Any, kernel_size: Any, stride: Any, dilation: Any = (1, 1), value: Any = 0.0) -> Any:
    ih, iw = x.size()[-2:]
    pad_h = max((math.ceil(ih / stride[0]) - 1) * stride[0] + (kernel_size[0] - 1) * dilation[0] + 1 - ih, 0)
    pad_w = max((math.ceil(iw / stride[1]) - 1) * stride[1] + (kernel_size[1] - 1) * dilation[1] + 1 - iw, 0)
    if pad_h > 0 or pad_w > 0:
        x = F.pad(x, [pad_w // 2, pad_w - pad_w // 2, pad_h // 2, pad_h - pad_h // 2], value=value)
    return x


class Conv2dSame(nn.Conv2d):
    def forward(self, x: Any) -> Any:
        return F.conv2d(
            pad_same(x, self.weight.shape[-2:], self.stride, self.dilation),
            self.weight,
            self.bias,
            self.stride,
            (0, 0),
            self.dilation,
            self.groups,
        )


class SqueezeExcite(nn.Module):
    def __init__(self, c: Any, rd: Any = 0.25, act: Any = nn.ReLU, gate: Any = nn.Sigmoid) -> None:
        super().__init__()
        r = max(2, int(c * rd))
        self.conv_reduce = nn.Conv2d(c, r, 1)
        self.act1 = act(inplace=True)
        self.conv_expand = nn.Conv2d(r, c, 1)
        self.gate = gate()

    def forward(self, x: Any) -> Any:
        x_se = x.mean((2, 3), keepdim=True)
        x_se = self.act1(self.conv_reduce(x_se))
        return x * self.gate(self.conv_expand(x_se))


def checkpoint_seq(
    functions: Any, x: Any, every: Any = 1, flatten: Any = False, skip_last: Any = False, preserve_rng_state: Any = True
) -> Any:

    def run_function(start: Any, end: Any, functions: Any) -> Any:

        def forward(_x: Any) -> Any:
            for j in range(start, end + 1):
                _x = functions[j](_x)
            return _x

        return forward

    if isinstance(functions, nn.Sequential):
        functions = functions.children()
    if not isinstance(functions, (tuple, list)):
        functions = tuple(functions)
    num = len(functions)
    end = -1
    for start in range(0, num, every):
        end = min(start + every - 1, num - 1)
        x = cp.checkpoint(
            run_function(start, end, functions), x, preserve_rng_state=preserve_rng_state, use_reentrant=False
        )
    return x


class Conv2dNormActivation(nn.Sequential):
    def __init__(
        self,
        i: Any,
        o: Any,
        k: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: Any = 1,
        norm_layer: Any = nn.BatchNorm2d,
        activation_layer: Any = nn.ReLU,
        dilation: Any = 1,
        inplace: Any = True,
        bias: Any = None,
        conv_layer: Any = nn.Conv2d,
    ) -> None:
        if padding is None:
            padding = (k - 1) // 2 * dilation
        if bias is None:
            bias = norm_layer is None
        layers = [conv_layer(i, o, k, stride, padding, dilation=dilation, groups=groups, bias=bias)]
        if norm_layer is not None:
            layers.append(norm_layer(o))
        if activation_layer is not None:
            layers.append(activation_layer(**{} if inplace is None else {"inplace": inplace}))
        super().__init__(*layers)
        self.out_channels = o
        if self.__class__ == Conv2dNormActivation:
            torch._C._log_api_usage_once("x")


class FrozenBatchNorm2d(nn.Module):
    def __init__(self, n: Any, eps: Any = 1e-05) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.rand(n))
        self.register_buffer("bias", torch.zeros(n))
        self.register_buffer("running_mean", torch.zeros(n))
        self.register_buffer("running_var", torch.ones(n))

    def forward(self, x: Any) -> Any:
        w = self.weight.reshape(1, -1, 1, 1)
        b = self.bias.reshape(1, -1, 1, 1)
        rv = self.running_var.reshape(1, -1, 1, 1)
        rm = self.running_mean.reshape(1, -1, 1, 1)
        scale = w * (rv + self.eps).rsqrt()
        bias = b - rm * scale
        return x * scale + bias


class IntermediateLayerGetter(nn.ModuleDict):
    _version = 2

    def __init__(self, model: Any, return_layers: Any) -> None:
        orig = return_layers
        return_layers = {str(k): str(v) for k, v in return_layers.items()}
        layers = OrderedDict()
        for name, module in model.named_children():
            layers[name] = module
            if name in return_layers:
                del return_layers[name]
            if not return_layers:
                break
        super().__init__(layers)
        self.return_layers = orig

    def forward(self, x: Any) -> Any:
        out = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                out[self.return_layers[name]] = x
        return out


class LastLevelMaxPool(nn.Module):
    def forward(self, x: Any, y: Any, names: Any) -> Any:
        names.append("pool")
        x.append(F.max_pool2d(x[-1], kernel_size=1, stride=2, padding=0))
        return (x, names)


class FPN(nn.Module):
    def __init__(self, ins: Any, out: Any, extra_blocks: Any = None) -> None:
        super().__init__()
        self.inner_blocks, self.layer_blocks = (nn.ModuleList(), nn.ModuleList())
        for i in ins:
            self.inner_blocks.append(
                Conv2dNormActivation(i, out, k=1, padding=0, norm_layer=None, activation_layer=None)
            )
            self.layer_blocks.append(Conv2dNormActivation(out, out, k=3, norm_layer=None, activation_layer=None))
        self.extra_blocks = extra_blocks

    def get_result_from_inner_blocks(self, x: Any, idx: Any) -> Any:
        num_blocks = len(self.inner_blocks)
        if idx < 0:
            idx += num_blocks
        out = x
        for i, module in enumerate(self.inner_blocks):
            if i == idx:
                out = module(x)
        return out

    def get_result_from_layer_blocks(self, x: Any, idx: Any) -> Any:
        num_blocks = len(self.layer_blocks)
        if idx < 0:
            idx += num_blocks
        out = x
        for i, module in enumerate(self.layer_blocks):
            if i == idx:
                out = module(x)
        return out

    def forward(self, x: Any) -> Any:
        names = list(x.keys())
        x = list(x.values())
        last_inner = self.get_result_from_inner_blocks(x[-1], -1)
        results = [self.get_result_from_layer_blocks(last_inner, -1)]
        for idx in range(len(x) - 2, -1, -1):
            inner_lateral = self.get_result_from_inner_blocks(x[idx], idx)
            inner_top_down = F.interpolate(last_inner, size=inner_lateral.shape[-2:], mode="nearest")
            last_inner = inner_lateral + inner_top_down
            results.insert(0, self.get_result_from_layer_blocks(last_inner, idx))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, x, names)
        return OrderedDict([(k, v) for k, v in zip(names, results, strict=False)])


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = Conv2dNormActivation(3, 4, stride=2, norm_layer=FrozenBatchNorm2d)
        self.layer1 = Conv2dNormActivation(4, 6, stride=2)
        self.layer2 = Conv2dNormActivation(6, 8, stride=2, norm_layer=partial(nn.BatchNorm2d, eps=0.001))
        self.fc = nn.Linear(3, 3)


class BackboneWithFPN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = IntermediateLayerGetter(Backbone(), {"stem": "0", "layer1": "1", "layer2": "2"})
        self.fpn = FPN([4, 6, 8], 5, LastLevelMaxPool())
        self.out_channels = 5

    def forward(self, x: Any) -> Any:
        return self.fpn(self.body(x))


def make_coords_grid(b: Any, h: Any, w: Any, device: Any = "cpu") -> Any:
    device = torch.device(device)
    coords = torch.meshgrid(torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij")
    return torch.stack(coords[::-1], dim=0).float()[None].repeat(b, 1, 1, 1)


class CorrBlock(nn.Module):
    def __init__(self, num_levels: Any = 2, radius: Any = 1) -> None:
        super().__init__()
        self.num_levels, self.radius = (num_levels, radius)
        self.corr_pyramid = [torch.tensor(0)]
        self.out_channels = num_levels * (2 * radius + 1) ** 2

    def build_pyramid(self, f1: Any, f2: Any) -> Any:
        b, c, h, w = f1.shape
        corr = torch.matmul(f1.view(b, c, h * w).transpose(1, 2), f2.view(b, c, h * w)).view(
            b, h, w, 1, h, w
        ) / torch.sqrt(torch.tensor(c, device=f1.device))
        corr = corr.reshape(b * h * w, 1, h, w)
        self.corr_pyramid = [corr]
        for _ in range(self.num_levels - 1):
            corr = F.avg_pool2d(corr, kernel_size=2, stride=2)
            self.corr_pyramid.append(corr)

    def index_pyramid(self, cc: Any) -> Any:
        n = 2 * self.radius + 1
        di = torch.linspace(-self.radius, self.radius, n)
        delta = torch.stack(torch.meshgrid(di, di, indexing="ij"), dim=-1).to(cc.device).view(1, n, n, 2)
        b, _, h, w = cc.shape
        cc = cc.permute(0, 2, 3, 1).reshape(b * h * w, 1, 1, 2)
        out = []
        for cv in self.corr_pyramid:
            sc = cc + delta
            hh, ww = cv.shape[-2:]
            xg, yg = sc.split([1, 1], dim=-1)
            xg = 2 * xg / (ww - 1) - 1
            if hh > 1:
                yg = 2 * yg / (hh - 1) - 1
            g = torch.cat([xg, yg], dim=-1)
            out.append(F.grid_sample(cv, g, mode="bilinear", align_corners=True).view(b, h, w, -1))
            cc = cc / 2
        f = torch.cat(out, dim=-1).permute(0, 3, 1, 2).contiguous()
        e = (b, self.out_channels, h, w)
        if f.shape != e:
            raise ValueError(f"Output shape of index pyramid is incorrect. Should be {e}, got {f.shape}")
        return f


class RAFT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fnet = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.InstanceNorm2d(4), nn.ReLU())
        self.corr_block = CorrBlock()
        self.gru = nn.Conv2d(18 + 2 + 6, 6, 3, padding=1)
        self.flow = nn.Conv2d(6, 2, 3, padding=1)

    def forward(self, image1: Any, image2: Any, num_flow_updates: Any = 2) -> Any:
        b, _, h, w = image1.shape
        if (h, w) != image2.shape[-2:]:
            raise ValueError(f"input images should have the same shape, instead got ({h}, {w}) != {image2.shape[-2:]}")
        torch._assert(h % 2 == 0, "bad")
        f1, f2 = torch.chunk(self.fnet(torch.cat([image1, image2], dim=0)), chunks=2, dim=0)
        self.corr_block.build_pyramid(f1, f2)
        hidden = torch.tanh(torch.cat([f1, f1[:, :2]], 1))
        c0 = make_coords_grid(b, h // 2, w // 2).to(f1.device)
        c1 = make_coords_grid(b, h // 2, w // 2).to(f1.device)
        preds = []
        for _ in range(num_flow_updates):
            c1 = c1.detach()
            corr = self.corr_block.index_pyramid(cc=c1)
            flow = c1 - c0
            hidden = torch.tanh(self.gru(torch.cat([hidden, flow, corr], 1)))
            c1 = c1 + self.flow(hidden)
            preds.append(F.interpolate(c1 - c0, scale_factor=2, mode="bilinear", align_corners=True) * 2)
        return preds


class HRModule(nn.Module):
    def __init__(self, chs: Any = (4, 8)) -> None:
        super().__init__()
        self.num_branches = 2
        self.branches = nn.ModuleList([nn.Sequential(Conv2dNormActivation(c, c)) for c in chs])
        fl = []
        for i in range(2):
            row = []
            for j in range(2):
                if j > i:
                    row.append(
                        nn.Sequential(
                            nn.Conv2d(chs[j], chs[i], 1, bias=False),
                            nn.BatchNorm2d(chs[i]),
                            nn.Upsample(scale_factor=2 ** (j - i), mode="nearest"),
                        )
                    )
                elif j == i:
                    row.append(None)
                else:
                    row.append(
                        nn.Sequential(
                            nn.Sequential(nn.Conv2d(chs[j], chs[i], 3, 2, 1, bias=False), nn.BatchNorm2d(chs[i]))
                        )
                    )
            fl.append(nn.ModuleList(row))
        self.fuse_layers = nn.ModuleList(fl)
        self.relu = nn.ReLU(False)

    def forward(self, x: Any) -> Any:
        for i in range(self.num_branches):
            x[i] = self.branches[i](x[i])
        out = []
        for i in range(len(self.fuse_layers)):
            y = x[0] if i == 0 else self.fuse_layers[i][0](x[0])
            for j in range(1, self.num_branches):
                y = y + x[j] if i == j else y + self.fuse_layers[i][j](x[j])
            out.append(self.relu(y))
        return out


class HRNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transition1 = nn.ModuleList(
            [nn.Conv2d(3, 4, 3, 1, 1), nn.Sequential(nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1)))]
        )
        self.stage2 = nn.Sequential(HRModule(), HRModule())
        self.final = nn.Conv2d(12, 2, 1)

    def forward(self, x: Any) -> Any:
        x_list = [t(x) for t in self.transition1]
        y = self.stage2(x_list)
        h, w = (y[0].size(2), y[0].size(3))
        return self.final(torch.cat([y[0], F.interpolate(y[1], size=(h, w), mode="bilinear", align_corners=False)], 1))


class Staged(nn.Module):
    """Blocks with statistics that are computed again in the backward pass, and count twice."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Conv2dSame(3, 4, 3, stride=2, bias=False)
        self.blocks = nn.Sequential(
            *(nn.Sequential(StdConv2d(4, 4, 1), BatchNormAct2d(4), DropPath(0.2)) for _ in "ab")
        )
        self.se = SqueezeExcite(4)

    def forward(self, x: Any) -> Any:
        return self.se(checkpoint_seq([*self.blocks], self.stem(x)))


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, h: Any, mask: Any = None, output_attentions: Any = False) -> Any:
        s = self.query(h) @ self.key(h).transpose(-1, -2) / math.sqrt(4)
        p = torch.softmax(s if mask is None else s + mask, dim=-1)
        return (p @ self.value(h), p) if output_attentions else (p @ self.value(h),)


class NamedSelf(nn.Module):
    """A member called self."""

    def __init__(self) -> None:
        super().__init__()
        self.self = SelfAttention()
        self.nn = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, h: Any) -> Any:
        outputs = self.self(h, output_attentions=True)
        return (self.nn(outputs[0]) * self.scale + h, *outputs[1:])
