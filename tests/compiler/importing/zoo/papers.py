"""Networks as papers publish them: sequences, graphs, flows, adapters."""

# mypy: disable-error-code="operator, union-attr, index, arg-type, assignment, misc, call-overload, attr-defined"
# People leave out what a type checker would ask for, and so do these.

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint


class Child(nn.Module):
    def __init__(self, grad_ck: Any = False) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.ck = grad_ck
        self.bn = nn.BatchNorm1d(4)

    def features(self, x: Any, mask: Any = None) -> Any:
        if not isinstance(x, Tensor):
            raise TypeError("no tensor")
        if self.ck and self.training:
            return checkpoint(self._inner, x, use_reentrant=False)
        return self._inner(x)

    def _inner(self, x: Any) -> Any:
        n = len(x)
        k = int(x.shape[-1] / 2)
        s = math.sqrt(x.size(-1))
        y = self.l(x) * s + torch.arange(x.shape[-1]) * n
        y[:, :k] = y[:, :k] * 2
        return self.bn(y)

    def forward(self, x: Any) -> Any:
        return self.features(x)


class Parent(nn.Module):
    def __init__(self, ck: Any = False) -> None:
        super().__init__()
        self.child = Child(ck)
        self.many = nn.ModuleList([Child(ck), Child()])

    def forward(self, x: Any) -> Any:
        x = self.child.features(x)
        for m in self.many:
            x = m.features(x)
        return x


class Keeper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.Linear(4, 4)
        self.maps: list[Any] = []
        self.h = None

    def start(self, x: Any) -> Any:
        self.h = self.l(x)
        self.maps = [self.h]

    def step(self, x: Any) -> Any:
        self.h = torch.tanh(self.l(x) + self.h)
        self.maps.append(self.h)
        return self.h

    def forward(self, x: Any) -> Any:
        return x


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k = Keeper()
        self.o = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        self.k.start(x)
        for _ in range(2):
            x = self.k.step(x)
        return (self.o(x), torch.stack(self.k.maps).mean())


class RevIN(nn.Module):
    def __init__(self, n: Any) -> None:
        super().__init__()
        self.affine_weight = nn.Parameter(torch.ones(n))
        self.affine_bias = nn.Parameter(torch.zeros(n))
        self.eps = 1e-05

    def forward(self, x: Any, mode: Any) -> Any:
        if mode == "norm":
            self._get_statistics(x)
            x = self._normalize(x)
        elif mode == "denorm":
            x = self._denormalize(x)
        else:
            raise NotImplementedError
        return x

    def _get_statistics(self, x: Any) -> Any:
        dim2reduce = tuple(range(1, x.ndim - 1))
        self.mean = torch.mean(x, dim=dim2reduce, keepdim=True).detach()
        self.stdev = torch.sqrt(torch.var(x, dim=dim2reduce, keepdim=True, unbiased=False) + self.eps).detach()

    def _normalize(self, x: Any) -> Any:
        return (x - self.mean) / self.stdev * self.affine_weight + self.affine_bias

    def _denormalize(self, x: Any) -> Any:
        return (x - self.affine_bias) / (self.affine_weight + self.eps * self.eps) * self.stdev + self.mean


class PatchTST(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.revin = RevIN(3)
        self.pad = nn.ReplicationPad1d((0, 2))
        self.p = nn.Linear(4, 8)
        self.head = nn.Linear(8 * 5, 6)

    def forward(self, x: Any) -> Any:
        x = self.revin(x, "norm").permute(0, 2, 1)
        x = self.pad(x).unfold(dimension=-1, size=4, step=2)
        x = self.head(self.p(x).flatten(-2)).permute(0, 2, 1)
        return self.revin(x, "denorm")


class TwoWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.att = nn.MultiheadAttention(4, 2, batch_first=True, dropout=0.1)
        self.enc = Enc()
        self.o = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        a, _ = self.att(x, x, x, need_weights=False)
        b, w = self.att(a, x, x)
        f, mid = self.enc(a, features=True)
        g = self.enc(b)
        h = self.enc(b, scale=x.mean())
        return (self.o(f + g + h), w, mid)


class Enc(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.n = nn.BatchNorm1d(4)
        self.p = nn.Parameter(torch.ones(4))

    def forward(self, x: Any, features: Any = False, scale: Any = None) -> Any:
        outs = []
        for layer in self.l:
            x = torch.relu(layer(x)) + self.p
            outs.append(x)
        x = self.n(x.transpose(1, 2)).transpose(1, 2)
        if scale is not None:
            x = x * scale
        return (x, outs) if features else x


class EqualLinear(nn.Module):
    def __init__(self, i: Any, o: Any, lr_mul: Any = 0.01) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i).div_(lr_mul))
        self.bias = nn.Parameter(torch.zeros(o))
        self.scale = 1 / math.sqrt(i) * lr_mul
        self.lr_mul = lr_mul

    def forward(self, x: Any) -> Any:
        return F.leaky_relu(F.linear(x, self.weight * self.scale, bias=self.bias * self.lr_mul), 0.2) * 2**0.5


class ModulatedConv(nn.Module):
    def __init__(self, i: Any, o: Any, k: Any, style: Any, up: Any = False) -> None:
        super().__init__()
        self.i, self.o, self.k, self.up = (i, o, k, up)
        self.weight = nn.Parameter(torch.randn(1, o, i, k, k))
        self.modulation = EqualLinear(style, i, 1)
        self.scale = 1 / math.sqrt(i * k**2)
        self.register_buffer("kernel", torch.tensor([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]) / 16)
        self.eps = 1e-08

    def __repr__(self) -> Any:
        return f"{self.__class__.__name__}({self.i}, {self.o}, {self.k})"

    def forward(self, x: Any, style: Any) -> Any:
        b, c, h, w = x.shape
        style = self.modulation(style).view(b, 1, c, 1, 1)
        weight = self.scale * self.weight * style
        demod = torch.rsqrt(weight.pow(2).sum([2, 3, 4]) + 1e-08)
        weight = weight * demod.view(b, self.o, 1, 1, 1)
        weight = weight.view(b * self.o, c, self.k, self.k)
        if self.up:
            x = x.view(1, b * c, h, w)
            weight = weight.view(b, self.o, c, self.k, self.k).transpose(1, 2).reshape(b * c, self.o, self.k, self.k)
            out = F.conv_transpose2d(x, weight, padding=0, stride=2, groups=b)
            _, _, hh, ww = out.shape
            out = out.view(b, self.o, hh, ww)
            return F.conv2d(out.reshape(-1, 1, hh, ww), self.kernel[None, None], padding=0).view(
                b, self.o, hh - 2, ww - 2
            )
        return F.conv2d(x.view(1, b * c, h, w), weight, padding=self.k // 2, groups=b).view(b, self.o, h, w)


class GRUD(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 5)
        self.decay = nn.Linear(3, 5)
        self.lstm = nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True, dropout=0.2, proj_size=2)
        self.h0 = nn.Parameter(torch.zeros(1, 5))
        self.register_buffer("x_mean", torch.rand(3))

    def forward(self, x: Any, mask: Any, delta: Any, lengths: Any) -> Any:
        b, t, _ = x.shape
        h = self.h0.expand(b, -1).contiguous()
        last = torch.zeros_like(x[:, 0])
        outs = []
        for xs, ms, ds in zip(x.unbind(1), mask.unbind(dim=1), delta.unbind(1), strict=False):
            g = torch.exp(-torch.clamp(self.decay(ds), min=0))
            h = h * g
            last = torch.where(ms > 0, xs, last)
            xi = ms * xs + (1 - ms) * (0.5 * last + 0.5 * self.x_mean)
            h = self.cell(torch.cat((xi, ms), -1), h)
            outs.append(h)
        seq = torch.stack(outs, 1)
        packed = pack_padded_sequence(seq, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, (hn, _cn) = self.lstm(packed)
        out, ls = pad_packed_sequence(out, batch_first=True, total_length=t)
        return (out, hn.transpose(0, 1).flatten(1), ls)


class EGNN(nn.Module):
    def __init__(self, h: Any = 4) -> None:
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * h + 1, 8), nn.SiLU(), nn.Linear(8, 8))
        self.node = nn.Sequential(nn.Linear(h + 8, h))
        self.coord = nn.Linear(8, 1, bias=False)

    def coord2radial(self, edge_index: Any, coord: Any) -> Any:
        row, col = edge_index
        d = coord[row] - coord[col]
        r = torch.sum(d**2, 1).unsqueeze(1)
        return (r, d / (torch.sqrt(r).detach() + 1e-08))

    def forward(self, h: Any, edge_index: Any, coord: Any, batch: Any = None) -> Any:
        row, col = edge_index
        radial, diff = self.coord2radial(edge_index, coord)
        e = self.edge(torch.cat([h[row], h[col], radial], dim=1))
        coord = coord + unsorted_segment_mean(diff * self.coord(e), row, num_segments=coord.size(0))
        agg = unsorted_segment_sum(e, row, num_segments=h.size(0))
        return (h + self.node(torch.cat([h, agg], dim=1)), coord)


def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any) -> Any:
    result = data.new_full((num_segments, data.size(1)), 0)
    segment_ids = segment_ids.unsqueeze(-1).expand(-1, data.size(1))
    result.scatter_add_(0, segment_ids, data)
    return result


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any) -> Any:
    shape = (num_segments, data.size(1))
    segment_ids = segment_ids.unsqueeze(-1).expand(-1, data.size(1))
    result = data.new_full(shape, 0)
    count = data.new_full(shape, 0)
    result.scatter_add_(0, segment_ids, data)
    count.scatter_add_(0, segment_ids, torch.ones_like(data))
    return result / count.clamp(min=1)


def knn(x: Any, k: Any) -> Any:
    inner = -2 * torch.matmul(x.transpose(2, 1), x)
    xx = torch.sum(x**2, dim=1, keepdim=True)
    return (-xx - inner - xx.transpose(2, 1)).topk(k=k, dim=-1)[1]


def get_graph_feature(x: Any, k: Any = 3, idx: Any = None) -> Any:
    b = x.size(0)
    n = x.size(2)
    x = x.view(b, -1, n)
    if idx is None:
        idx = knn(x, k=k)
    base = torch.arange(0, b, device=x.device).view(-1, 1, 1) * n
    idx = (idx + base).view(-1)
    _, d, _ = x.size()
    x = x.transpose(2, 1).contiguous()
    f = x.view(b * n, -1)[idx, :].view(b, n, k, d)
    x = x.view(b, n, 1, d).repeat(1, 1, k, 1)
    return torch.cat((f - x, x), dim=3).permute(0, 3, 1, 2).contiguous()


class DGCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k = 3
        self.bn1 = nn.BatchNorm2d(6)
        self.conv1 = nn.Sequential(nn.Conv2d(6, 6, 1, bias=False), self.bn1, nn.LeakyReLU(0.2))
        self.lin = nn.Linear(12, 2)

    def forward(self, x: Any) -> Any:
        x = self.conv1(get_graph_feature(x, k=self.k)).max(dim=-1, keepdim=False)[0]
        b = x.size(0)
        return self.lin(
            torch.cat((F.adaptive_max_pool1d(x, 1).view(b, -1), F.adaptive_avg_pool1d(x, 1).view(b, -1)), 1)
        )


class PeftLinear(nn.Module):
    def __init__(self, base: Any) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.ModuleDict({"default": nn.Linear(4, 2, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(2, 4, bias=False)})
        self.lora_dropout = nn.ModuleDict({"default": nn.Dropout(0.1)})
        self.scaling = {"default": 2.0}
        self.active_adapters = ["default"]
        self._disable_adapters = False

    @property
    def weight(self) -> Any:
        return self.base_layer.weight

    @property
    def disable_adapters(self) -> Any:
        return self._disable_adapters

    def _check_forward_args(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        names = kwargs.get("adapter_names")
        if names is None:
            return

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        self._check_forward_args(x, *args, **kwargs)
        kwargs.pop("adapter_names", None)
        if self.disable_adapters:
            return self.base_layer(x, *args, **kwargs)
        result = self.base_layer(x, *args, **kwargs)
        torch_result_dtype = result.dtype
        for a in self.active_adapters:
            if a not in self.lora_A:
                continue
            lora_A, lora_B, dropout, scaling = (self.lora_A[a], self.lora_B[a], self.lora_dropout[a], self.scaling[a])
            x = x.to(lora_A.weight.dtype)
            result = result + lora_B(lora_A(dropout(x))) * scaling
        return result.to(torch_result_dtype)


class Wrapper(nn.Module):
    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def __getattr__(self, name: Any) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


class UNetOut(NamedTuple):
    sample: Tensor


class DiffusersUNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.time_proj_dim = 4
        self.time_embedding = nn.Sequential(nn.Linear(4, 4), nn.SiLU())
        self.conv_in = nn.Conv2d(2, 4, 3, padding=1)
        self.down_blocks = nn.ModuleList([DB(4), DB(4, True)])
        self.up_blocks = nn.ModuleList([UB(8, True), UB(8)])
        self.conv_out = nn.Conv2d(4, 2, 1)

    @property
    def dtype(self) -> Any:
        return self.conv_in.weight.dtype

    def forward(self, sample: Any, timestep: Any, encoder_hidden_states: Any = None, return_dict: Any = True) -> Any:
        forward_upsample_size = False
        for dim in sample.shape[-2:]:
            if dim % 2 != 0:
                forward_upsample_size = True
                break
        timesteps = timestep
        if not torch.is_tensor(timesteps):
            dtype = torch.float64 if isinstance(timestep, float) else torch.int64
            timesteps = torch.tensor([timesteps], dtype=dtype, device=sample.device)
        elif len(timesteps.shape) == 0:
            timesteps = timesteps[None].to(sample.device)
        timesteps = timesteps.expand(sample.shape[0])
        half = 2
        e = torch.exp(-math.log(10000) * torch.arange(0, half, dtype=torch.float32, device=timesteps.device) / half)
        emb = timesteps[:, None].float() * e[None, :]
        emb = torch.cat([torch.sin(emb), torch.cos(emb)], -1)
        temb = self.time_embedding(emb.to(dtype=self.dtype))
        sample = self.conv_in(sample)
        res = (sample,)
        for b in self.down_blocks:
            if hasattr(b, "has_cross_attention") and b.has_cross_attention:
                sample, r = b(hidden_states=sample, temb=temb, encoder_hidden_states=encoder_hidden_states)
            else:
                sample, r = b(hidden_states=sample, temb=temb)
            res += r
        for _i, b in enumerate(self.up_blocks):
            r = res[-len(b.resnets) :]
            res = res[: -len(b.resnets)]
            size = res[-1].shape[2:] if forward_upsample_size else None
            sample = b(sample, res_hidden_states_tuple=r, temb=temb, upsample_size=size)
        sample = self.conv_out(F.silu(sample))
        return UNetOut(sample=sample) if return_dict else (sample,)


class DB(nn.Module):
    def __init__(self, c: Any, cross: Any = False) -> None:
        super().__init__()
        self.has_cross_attention = cross
        self.resnets = nn.ModuleList([nn.Conv2d(c, c, 3, padding=1)])
        self.t = nn.Linear(4, c)
        self.down = nn.Conv2d(c, c, 3, 2, 1)
        self.att = nn.MultiheadAttention(c, 2, kdim=3, vdim=3, batch_first=True) if cross else None

    def forward(self, hidden_states: Any, temb: Any = None, encoder_hidden_states: Any = None) -> Any:
        out = ()
        for r in self.resnets:
            hidden_states = r(hidden_states) + self.t(temb)[:, :, None, None]
        if self.att is not None:
            b, c, h, w = hidden_states.shape
            q = hidden_states.flatten(2).transpose(1, 2)
            hidden_states = hidden_states + self.att(
                q, encoder_hidden_states, encoder_hidden_states, need_weights=False
            )[0].transpose(1, 2).reshape(b, c, h, w)
        out += (hidden_states,)
        return (self.down(hidden_states), out)


class UB(nn.Module):
    def __init__(self, c: Any, last: Any = False) -> None:
        super().__init__()
        self.resnets = nn.ModuleList([nn.Conv2d(c, 4, 3, padding=1)])
        self.t = nn.Linear(4, 4)

    def forward(
        self, hidden_states: Any, res_hidden_states_tuple: Any, temb: Any = None, upsample_size: Any = None
    ) -> Any:
        for r in self.resnets:
            rh = res_hidden_states_tuple[-1]
            res_hidden_states_tuple = res_hidden_states_tuple[:-1]
            hidden_states = F.interpolate(hidden_states, size=rh.shape[2:], mode="nearest")
            hidden_states = r(torch.cat([hidden_states, rh], dim=1)) + self.t(temb)[:, :, None, None]
        return hidden_states


class Adapted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.b = PeftLinear(nn.Linear(4, 4))
        self.w = Wrapper(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))

    def forward(self, x: Any) -> Any:
        return self.w(self.b(x)) * self.w.module[0].weight.mean()


class Modulated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([ModulatedConv(4, 4, 3, 4, True), ModulatedConv(4, 3, 3, 4)])

    def forward(self, x: Any, style: Any) -> Any:
        for conv in self.convs:
            x = conv(x, style)
            x = x + x.new_empty(x.shape[0], 1, *x.shape[2:]).normal_()
        return x


class Heads(nn.Module):
    """Names that only a dictionary can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleDict({name: nn.Linear(4, 2) for name in ("part-of-speech", "class", 'say "a"')})

    def forward(self, x: Any) -> Any:
        return {name: head(x) for name, head in self.heads.items()}
