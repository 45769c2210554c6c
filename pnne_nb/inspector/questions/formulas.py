"""Formulas of layers, one by kind: a number of the output from its operands, in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pnne_nb.errors import InspectionError

Index = tuple[int, ...]


@final
@dataclass(frozen=True, eq=False)
class Formula:
    """One number and how it comes about.

    Attributes:
        text: The formula, with the names of `operands`.
        operands: What it was computed from.
        result: The number, in float64.
        terms: The summands, if it is a sum: what is multiplied, in words, and the product.
        scale: The size to which rounding errors are relative: the sum of the terms' magnitudes, at least.
    """

    text: str
    operands: Mapping[str, Tensor]
    result: float
    terms: tuple[tuple[str, float], ...] = ()
    scale: float = 0.0


def _number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _places(index: Index) -> str:
    return f"[{', '.join(map(str, index))}]"


def _linear(module: nn.Module, index: Index, x: Tensor, *others: Tensor) -> Formula:
    """Any layer that is linear in its first input."""
    exact, rest = copy.deepcopy(module).double(), [other.double() for other in others]
    found = linear(lambda one: exact.forward(one, *rest), index, x)
    assert found is not None
    return found


def linear(function: Callable[[Tensor], Tensor], index: Index, x: Tensor) -> Formula | None:
    """Return a number of a function that is linear in its input but for a bias: its coefficients are its gradient.

    None if it is not linear.
    """
    followed = x.double().requires_grad_()
    other = torch.where(followed == 0, 1.0, -2 * followed).detach().requires_grad_()
    with torch.enable_grad():
        output = function(followed)[index]
        if not output.requires_grad:
            return None
        [gradient] = torch.autograd.grad(output, [followed])
        elsewhere = function(other)[index]
        again = torch.autograd.grad(elsewhere, [other])[0] if elsewhere.requires_grad else None
    if again is None or not torch.equal(gradient, again):
        return None
    offset = float(function(torch.zeros_like(x, dtype=torch.float64))[index])
    # Zero weights are operands too, but nothing tells them from elements outside of the window.
    used = gradient.nonzero()
    coefficients = gradient[tuple(used.T)]
    values = x.double()[tuple(used.T)]
    products = (coefficients * values).tolist()
    terms = [
        (f"input{_places(tuple(place))} {value:.6g} × {coefficient:.6g}", product)
        for place, value, coefficient, product in zip(
            used.tolist(), values.tolist(), coefficients.tolist(), products, strict=True
        )
    ]
    operands, text = {"input": values, "weight": coefficients}, "Σ input · weight"
    if offset:
        operands["bias"] = _number(offset)
        terms.append(("bias", offset))
        text += " + bias"
    result = math.fsum(product for _, product in terms)
    return Formula(text, operands, result, tuple(terms), math.fsum(abs(product) for _, product in terms))


def _window(module: Any, index: Index, sides: tuple[int, ...]) -> tuple[slice | list[int], ...]:
    """Return the input's positions that a maximum is taken of, by dimension."""
    count = len(sides)
    if isinstance(module, nn.AdaptiveMaxPool1d | nn.AdaptiveMaxPool2d | nn.AdaptiveMaxPool3d):
        asked = module.output_size if isinstance(module.output_size, tuple) else (module.output_size,) * count
        sizes = [side if size is None else size for side, size in zip(sides, asked, strict=True)]
        return tuple(
            slice(at * side // size, -(-(at + 1) * side // size))
            for at, side, size in zip(index, sides, sizes, strict=True)
        )

    def each(value: Any) -> tuple[int, ...]:
        return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count

    found: list[slice | list[int]] = []
    rows = zip(
        index, sides, *map(each, (module.kernel_size, module.stride, module.padding, module.dilation)), strict=True
    )
    for at, side, size, stride, padding, dilation in rows:
        places = [at * stride - padding + dilation * step for step in range(size)]
        found.append([place for place in places if 0 <= place < side])
    return tuple(found)


def _max(module: nn.Module, index: Index, x: Tensor) -> Formula:
    sides = {1: 1, 2: 2, 3: 3}[int(type(module).__name__[-2])]
    window = x.double()[index[:-sides]]
    for axis, places in enumerate(_window(module, index[-sides:], tuple(x.shape[-sides:]))):
        window = window.movedim(axis, 0)[places].movedim(0, axis)
    return Formula("max input", {"input": window}, float(window.max()))


def _normalized(values: Tensor, x: float, eps: float, gain: float, shift: float) -> tuple[float, float, float]:
    mean = float(values.mean())
    variance = float(values.var(correction=0))
    return (x - mean) / math.sqrt(variance + eps) * gain + shift, mean, variance


def _norm(module: Any, index: Index, x: Tensor) -> Formula:
    exact = x.double()
    own = float(exact[index])
    channel = index[1] if x.dim() > 1 else index[0]
    gain = 1.0 if module.weight is None else float(_own(module.weight, module, index, channel))
    shift = 0.0 if getattr(module, "bias", None) is None else float(_own(module.bias, module, index, channel))
    eps = module.eps
    if isinstance(module, nn.RMSNorm):
        group = exact[index[: x.dim() - len(module.normalized_shape)]].flatten()
        eps = torch.finfo(x.dtype).eps if eps is None else eps
        square = float(group.square().mean())
        operands = {"input": exact[index], "mean_square": _number(square), "eps": _number(eps)}
        result = own / math.sqrt(square + eps) * gain
        return Formula(
            "input / √(mean_square + eps) · weight", operands | _gains(module, gain, None), result, scale=abs(result)
        )
    tracked = getattr(module, "running_mean", None)
    if isinstance(module, nn.LayerNorm):
        group = exact[index[: x.dim() - len(module.normalized_shape)]]
    elif isinstance(module, nn.GroupNorm):
        size = module.num_channels // module.num_groups
        first = channel // size * size
        group = exact[index[0], first : first + size]
    elif isinstance(module, nn.modules.instancenorm._InstanceNorm):
        batched = x.dim() == {"1": 3, "2": 4, "3": 5}[type(module).__name__[-2]]
        channel = index[1] if batched else index[0]
        group = exact[index[:2]] if batched else exact[index[0]]
    else:
        group = exact[:, channel]
    if tracked is not None:
        mean, variance = float(tracked[channel]), float(module.running_var[channel])
        result = (own - mean) / math.sqrt(variance + eps) * gain + shift
    else:
        result, mean, variance = _normalized(group, own, eps, gain, shift)
    operands = {"input": exact[index], "mean": _number(mean), "variance": _number(variance), "eps": _number(eps)}
    text = "(input − mean) / √(variance + eps)" + (" · weight" if module.weight is not None else "")
    bias = getattr(module, "bias", None)
    scale = (abs(own) + abs(mean)) / math.sqrt(variance + eps) * abs(gain) + abs(shift)
    text += " + bias" if bias is not None else ""
    return Formula(text, operands | _gains(module, gain, None if bias is None else shift), result, scale=scale)


def _own(parameter: Tensor, module: nn.Module, index: Index, channel: int) -> Tensor:
    by_element = isinstance(module, nn.LayerNorm | nn.RMSNorm)
    return parameter[index[len(index) - parameter.dim() :]] if by_element else parameter[channel]


def _gains(module: Any, gain: float, shift: float | None) -> dict[str, Tensor]:
    found = {} if module.weight is None else {"weight": _number(gain)}
    return found if shift is None else found | {"bias": _number(shift)}


def _softmax(module: Any, index: Index, x: Tensor) -> Formula:
    if isinstance(module, nn.Softmax2d):
        dim = x.dim() - 3
    else:
        dim = module.dim if module.dim is not None else (0 if x.dim() in (0, 1, 3) else 1)
    dim %= x.dim()
    row = x.double().movedim(dim, -1)[index[:dim] + index[dim + 1 :]]
    sign = -1.0 if isinstance(module, nn.Softmin) else 1.0
    largest = float((sign * row).max())
    total = math.fsum(math.exp(sign * value - largest) for value in row.tolist())
    own = sign * float(x.double()[index])
    operands = {"input": x.double()[index], "row": row}
    if isinstance(module, nn.LogSoftmax):
        result = own - largest - math.log(total)
        return Formula("input − log Σ exp(row)", operands, result, scale=abs(own) + abs(largest))
    text = "exp(−input) / Σ exp(−row)" if sign < 0 else "exp(input) / Σ exp(row)"
    return Formula(text, operands, math.exp(own - largest) / total)


def _embedding(module: nn.Embedding, index: Index, ids: Tensor) -> Formula:
    token = int(ids[index[:-1]])
    value = module.weight.detach()[token, index[-1]].double()
    return Formula(f"weight[{token}, {index[-1]}]", {"token": torch.tensor(token), "weight": value}, float(value))


_ELEMENTWISE: dict[type[nn.Module], str] = {
    nn.ReLU: "max(input, 0)",
    nn.ReLU6: "min(max(input, 0), 6)",
    nn.LeakyReLU: "input if input > 0 else slope · input",
    nn.PReLU: "input if input > 0 else weight · input",
    nn.RReLU: "input if input > 0 else (lower + upper) / 2 · input",
    nn.ELU: "input if input > 0 else α (exp(input) − 1)",
    nn.SELU: "λ (input if input > 0 else α (exp(input) − 1))",
    nn.GELU: "input · Φ(input)",
    nn.SiLU: "input / (1 + exp(−input))",
    nn.Mish: "input · tanh(log(1 + exp(input)))",
    nn.Sigmoid: "1 / (1 + exp(−input))",
    nn.LogSigmoid: "−log(1 + exp(−input))",
    nn.Tanh: "tanh(input)",
    nn.Softsign: "input / (1 + |input|)",
    nn.Hardtanh: "min(max(input, low), high)",
    nn.Hardsigmoid: "min(max(input / 6 + 1/2, 0), 1)",
    nn.Softplus: "log(1 + exp(β · input)) / β",
    nn.CELU: "α (exp(input / α) − 1) if input < 0 else input",
    nn.Hardshrink: "input if |input| > λ else 0",
    nn.Softshrink: "sign(input) · max(|input| − λ, 0)",
    nn.Tanhshrink: "input − tanh(input)",
    nn.Threshold: "input if input > threshold else value",
    nn.Hardswish: "input · min(max(input / 6 + 1/2, 0), 1)",
    **dict.fromkeys((nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout), "input"),
}


def _elementwise(module: nn.Module, index: Index, x: Tensor) -> Formula:
    own, operands = x.double()[index], dict[str, Tensor]()
    if isinstance(module, nn.PReLU):
        operands["weight"] = module.weight.detach().double()[index[1] if len(module.weight) > 1 else 0]
        result = own if own > 0 else operands["weight"] * own
    else:
        result = module.forward(own.clone())  # it may work in place
    return Formula(_ELEMENTWISE[type(module)], {"input": own, **operands}, float(result), scale=abs(float(own)))


def _glu(module: nn.GLU, index: Index, x: Tensor) -> Formula:
    dim = module.dim % x.dim()
    own, gate = (x.double()[*index[:dim], index[dim] + shift, *index[dim + 1 :]] for shift in (0, x.shape[dim] // 2))
    return Formula("input / (1 + exp(−gate))", {"input": own, "gate": gate}, float(own * gate.sigmoid()))


def _cosine(module: nn.CosineSimilarity, index: Index, x: Tensor, other: Tensor) -> Formula:
    a, b = (one.double().movedim(module.dim, -1)[index] for one in (x + 0 * other, other + 0 * x))
    result = float((a @ b) / (a.norm().clamp(min=module.eps) * b.norm().clamp(min=module.eps)))
    return Formula("Σ input · other / (|input| · |other|)", {"input": a, "other": b}, result, scale=1.0)


def _attention(module: nn.MultiheadAttention, index: Index, *args: Any, **kwargs: Any) -> Formula:
    layer: Any = copy.deepcopy(module).double()  # torch takes weights that may be None for tensors
    exact = [one.double() if isinstance(one, Tensor) and one.is_floating_point() else one for one in args]
    named = {
        key: one.double() if isinstance(one, Tensor) and one.is_floating_point() else one for key, one in kwargs.items()
    }
    if len(exact) > 4:
        exact[4] = True
    else:
        named["need_weights"] = True
    named["average_attn_weights"] = False
    _, weights = layer.forward(*exact, **named)
    value = exact[2] if len(exact) > 2 else named["value"]
    batched = value.dim() == 3
    if not batched:
        weights, value, index = weights.unsqueeze(0), value.unsqueeze(0), (0, *index)
    elif not module.batch_first:
        value, index = value.transpose(0, 1), (index[1], index[0], index[2])
    example, query, unit = index
    own = layer.v_proj_weight if layer.in_proj_weight is None else layer.in_proj_weight[2 * layer.embed_dim :]
    offset = None if layer.in_proj_bias is None else layer.in_proj_bias[2 * layer.embed_dim :]
    values = F.linear(value[example], own, offset).view(-1, layer.num_heads, layer.head_dim)  # [s, heads, d]
    attended = torch.einsum("hs,shd->hd", weights[example, :, query], values)
    row = layer.out_proj.weight[unit].view(layer.num_heads, layer.head_dim)
    by_head = (attended * row).sum(1)
    terms = [(f"head {head}", product) for head, product in enumerate(by_head.tolist())]
    operands = {"attention": weights[example, :, query].detach(), "values": values.detach(), "weight": row.detach()}
    text = "Σ over heads: (attention · values) · weight"
    if layer.out_proj.bias is not None:
        operands["bias"] = layer.out_proj.bias[unit].detach()
        terms.append(("bias", float(operands["bias"])))
        text += " + bias"
    return Formula(
        text, operands, math.fsum(product for _, product in terms), tuple(terms), float((attended * row).abs().sum())
    )


def _recurrent(module: Any, index: Index, x: Tensor, state: Any = None) -> Formula:
    """A hidden number of a recurrent layer or cell, from the gates of its step."""
    if not hasattr(x, "dim") or getattr(module, "proj_size", False):
        raise InspectionError("There is no formula for packed sequences and projections of recurrent layers.")
    cell, kind = isinstance(module, nn.RNNCellBase), type(module).__name__.removesuffix("Cell")
    size = module.hidden_size
    batched = x.dim() == (2 if cell else 3)
    exact = x.double() if batched else x.double().unsqueeze(0 if cell else 1)
    first = batched and not cell and module.batch_first
    steps = exact[None] if cell else exact.transpose(0, 1) if first else exact  # [t, n, c]
    place = index if batched else (*index[:-1], 0, index[-1])
    time, example, unit = (0, *place) if cell else (place[1], place[0], place[2]) if first else place
    count, ways = (1, 1) if cell else (module.num_layers, 2 if module.bidirectional else 1)
    given = state if isinstance(state, tuple) else () if state is None else (state,)
    begin = [one.double().reshape(count * ways, -1, size) for one in given]
    begin += [steps.new_zeros(count * ways, steps.shape[1], size)] * (2 - len(begin))
    kept: dict[str, Tensor] = {}
    outputs: list[Tensor] = []
    for layer, way in ((layer, way) for layer in range(count) for way in range(ways)):
        suffix = "" if cell else f"_l{layer}{'_reverse' * way}"
        own = [getattr(module, f"{name}{suffix}", None) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        weights = [None if one is None else one.detach().double() for one in own]
        h, c = (one[layer * ways + way] for one in begin)
        results = steps.new_zeros(*steps.shape[:2], size)
        for at in reversed(range(len(steps))) if way else range(len(steps)):
            parts = _step(kind, steps[at], h, c, weights, getattr(module, "nonlinearity", "tanh"))
            if layer == count - 1 and (way, at) == (unit // size, time):
                kept = {name: value[example, unit % size] for name, value in parts.items()}
            results[at], h, c = parts["result"], parts["result"], parts.get("cell", c)
        outputs = [*outputs, results] if way else [results]
        steps = torch.cat(outputs, -1) if way == ways - 1 else steps
    texts = {
        "LSTM": "output · tanh(forget · before + input · candidate)",
        "GRU": "(1 − update) · candidate + update · before",
    }
    result, scale = float(kept.pop("result")), float(kept.pop("scale"))
    return Formula(texts.get(kind) or f"{module.nonlinearity}(sum)", kept, result, scale=scale)


def _step(kind: str, x: Tensor, h: Tensor, c: Tensor, weights: list[Any], bend: str) -> dict[str, Tensor]:
    """Return the parts of a recurrent step, `[n, h]` each, and the magnitude of what is added up in its gates."""
    into, back, bias, second = weights
    a, b = F.linear(x, into, bias), F.linear(h, back, second)
    size = F.linear(x.abs(), into.abs()) + F.linear(h.abs(), back.abs()) + 1
    scale = size.view(len(h), -1, h.shape[-1]).amax(1)
    if kind == "RNN":
        return {"sum": a + b, "result": (a + b).relu() if bend == "relu" else (a + b).tanh(), "scale": scale}
    if kind == "GRU":
        (r, z, n), (hr, hz, hn) = a.chunk(3, -1), b.chunk(3, -1)
        reset, update = (r + hr).sigmoid(), (z + hz).sigmoid()
        candidate = (n + reset * hn).tanh()
        parts = {"update": update, "reset": reset, "candidate": candidate, "before": h, "scale": scale}
        return parts | {"result": (1 - update) * candidate + update * h}
    i, f, g, o = (a + b).chunk(4, -1)
    parts = {"forget": f.sigmoid(), "before": c, "input": i.sigmoid(), "candidate": g.tanh(), "output": o.sigmoid()}
    cell = parts["forget"] * c + parts["input"] * parts["candidate"]
    return parts | {"cell": cell, "result": parts["output"] * cell.tanh(), "scale": scale}


Rule = Callable[..., Formula]
FORMULAS: dict[type[nn.Module], Rule] = {
    **dict.fromkeys(
        (
            nn.Linear, nn.Bilinear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
            nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d,
            nn.Flatten, nn.Unflatten, nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle, nn.Upsample,
            nn.UpsamplingBilinear2d, nn.UpsamplingNearest2d, nn.Fold, nn.Unfold,
            nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d, nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d,
            nn.ReflectionPad1d, nn.ReflectionPad2d, nn.ReflectionPad3d, nn.ReplicationPad1d, nn.ReplicationPad2d,
            nn.ReplicationPad3d, nn.CircularPad1d, nn.CircularPad2d, nn.CircularPad3d,
        ),
        _linear,
    ),
    **dict.fromkeys(
        (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d, nn.AdaptiveMaxPool3d), _max
    ),
    **dict.fromkeys(
        (
            nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d,
            nn.SyncBatchNorm, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm,
        ),
        _norm,
    ),
    **dict.fromkeys((nn.Softmax, nn.LogSoftmax, nn.Softmin, nn.Softmax2d), _softmax),
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    nn.Embedding: _embedding,
    nn.GLU: _glu,
    nn.CosineSimilarity: _cosine,
    nn.MultiheadAttention: _attention,
    **dict.fromkeys((nn.RNN, nn.GRU, nn.LSTM, nn.RNNCell, nn.GRUCell, nn.LSTMCell), _recurrent),
}  # fmt: skip
"""By the exact class of the layer: a derived class may compute something else."""
