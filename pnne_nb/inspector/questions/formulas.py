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
    stride = module.kernel_size if module.stride is None else module.stride
    beyond = getattr(module, "padding", 0), getattr(module, "dilation", 1)  # a mean of powers has none
    rows = zip(index, sides, *map(each, (module.kernel_size, stride, *beyond)), strict=True)
    for at, side, size, stride, padding, dilation in rows:
        places = [at * stride - padding + dilation * step for step in range(size)]
        found.append([place for place in places if 0 <= place < side])
    return tuple(found)


def _seen(module: nn.Module, index: Index, x: Tensor) -> Tensor:
    """Return the part of the input that a pool sees."""
    sides = int(type(module).__name__[-2])
    window = x.double()[index[:-sides]]
    for axis, places in enumerate(_window(module, index[-sides:], tuple(x.shape[-sides:]))):
        window = window.movedim(axis, 0)[places].movedim(0, axis)
    return window


def _max(module: nn.Module, index: Index, x: Tensor) -> Formula:
    window = _seen(module, index, x)
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


def _exp(x: float) -> float:
    return math.exp(min(x, 700.0))


def _gelu(module: Any, x: float) -> float:
    if module.approximate == "none":
        return 0.5 * x * math.erfc(-x / math.sqrt(2))
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _softplus(module: Any, x: float) -> float:
    return x if module.beta * x > module.threshold else math.log1p(_exp(module.beta * x)) / module.beta


_ELEMENTWISE: dict[type[nn.Module], tuple[str, Callable[[Any, float], float]]] = {
    nn.ReLU: ("max(input, 0)", lambda _, x: max(x, 0.0)),
    nn.ReLU6: ("min(max(input, 0), 6)", lambda _, x: min(max(x, 0.0), 6.0)),
    nn.LeakyReLU: ("input if input > 0 else slope · input", lambda own, x: x if x > 0 else own.negative_slope * x),
    nn.RReLU: (
        "input if input > 0 else (lower + upper) / 2 · input", lambda own, x: x if x > 0 else (own.lower + own.upper) / 2 * x
    ),
    nn.ELU: ("input if input > 0 else α (exp(input) − 1)", lambda own, x: x if x > 0 else own.alpha * math.expm1(x)),
    nn.SELU: (
        "λ (input if input > 0 else α (exp(input) − 1))",
        lambda _, x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x)),
    ),
    nn.GELU: ("input · Φ(input)", _gelu),
    nn.SiLU: ("input / (1 + exp(−input))", lambda _, x: x / (1 + _exp(-x))),
    nn.Mish: ("input · tanh(log(1 + exp(input)))", lambda _, x: x * math.tanh(math.log1p(_exp(x)))),
    nn.Sigmoid: ("1 / (1 + exp(−input))", lambda _, x: 1 / (1 + _exp(-x))),
    nn.LogSigmoid: ("−log(1 + exp(−input))", lambda _, x: -math.log1p(_exp(-x))),
    nn.Tanh: ("tanh(input)", lambda _, x: math.tanh(x)),
    nn.Softsign: ("input / (1 + |input|)", lambda _, x: x / (1 + abs(x))),
    nn.Hardtanh: ("min(max(input, low), high)", lambda own, x: min(max(x, own.min_val), own.max_val)),
    nn.Hardsigmoid: ("min(max(input / 6 + 1/2, 0), 1)", lambda _, x: min(max(x / 6 + 0.5, 0.0), 1.0)),
    nn.Softplus: ("log(1 + exp(β · input)) / β", _softplus),
    nn.CELU: (
        "α (exp(input / α) − 1) if input < 0 else input", lambda own, x: own.alpha * math.expm1(x / own.alpha) if x < 0 else x
    ),
    nn.Hardshrink: ("input if |input| > λ else 0", lambda own, x: x if abs(x) > own.lambd else 0.0),
    nn.Softshrink: ("sign(input) · max(|input| − λ, 0)", lambda own, x: math.copysign(max(abs(x) - own.lambd, 0.0), x)),
    nn.Tanhshrink: ("input − tanh(input)", lambda _, x: x - math.tanh(x)),
    nn.Threshold: ("input if input > threshold else value", lambda own, x: x if x > own.threshold else own.value),
    nn.Hardswish: ("input · min(max(input / 6 + 1/2, 0), 1)", lambda _, x: x * min(max(x / 6 + 0.5, 0.0), 1.0)),
    **dict.fromkeys(
        (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout), ("input", lambda _, x: x)
    ),
}  # fmt: skip
"""Text and function of layers that compute each number of one number; the function gets the layer and the number."""


def _elementwise(module: nn.Module, index: Index, x: Tensor) -> Formula:
    text, function = _ELEMENTWISE[type(module)]
    own = float(x.double()[index])
    return Formula(text, {"input": _number(own)}, function(module, own), scale=abs(own))


def _prelu(module: nn.PReLU, index: Index, x: Tensor) -> Formula:
    own = x.double()[index]
    weight = module.weight.detach().double()[index[1] if len(module.weight) > 1 else 0]
    result = float(own if own > 0 else weight * own)
    return Formula(
        "input if input > 0 else weight · input", {"input": own, "weight": weight}, result, scale=abs(float(own))
    )


def _power_mean(module: Any, index: Index, x: Tensor) -> Formula:
    window, p = _seen(module, index, x), float(module.norm_type)
    sides = int(type(module).__name__[-2])
    kernel = module.kernel_size if isinstance(module.kernel_size, tuple) else (module.kernel_size,) * sides
    share = math.prod(kernel) / window.numel()  # what lies outside of the input counts as much as what is inside
    result, scale = (float((one.pow(p).sum() * share).pow(1 / p)) for one in (window, window.abs()))
    return Formula(f"(Σ input^{p:g})^(1/{p:g})", {"input": window}, result, scale=scale)


def _response_norm(module: nn.LocalResponseNorm, index: Index, x: Tensor) -> Formula:
    before = module.size // 2
    column = x.double().movedim(1, -1)[index[:1] + index[2:]]
    near = column[max(0, index[1] - before) : index[1] - before + module.size]
    own, squares = float(column[index[1]]), math.fsum(near.square().tolist())
    result = own / (module.k + module.alpha * squares / module.size) ** module.beta
    return Formula(
        "input / (k + α · Σ near² / size)^β", {"input": _number(own), "near": near}, result, scale=abs(result)
    )


def _bag(
    module: nn.EmbeddingBag,
    index: Index,
    input: Tensor,
    offsets: Tensor | None = None,
    per_sample_weights: Tensor | None = None,
) -> Formula:
    bag, unit = index
    part: Any = bag
    if input.dim() == 1 and offsets is not None:
        ends = [*offsets.tolist(), len(input)]
        part = slice(ends[bag], ends[bag + 1])
    chosen = input[part] != (-1 if module.padding_idx is None else module.padding_idx)
    tokens = input[part][chosen]
    rows = module.weight.detach().double()[tokens, unit]
    operands = {"tokens": tokens, "rows": rows}
    if module.mode == "max":
        return Formula("max rows", operands, float(rows.max()) if len(rows) else 0.0)
    if per_sample_weights is not None:
        operands["weights"] = per_sample_weights.double()[part][chosen]
        rows = rows * operands["weights"]
    count = max(1, len(rows)) if module.mode == "mean" else 1
    text = "Σ rows · weights" if per_sample_weights is not None else "Σ rows"
    scale = float(rows.abs().sum()) / count
    return Formula(text if count == 1 else f"{text} / {count}", operands, math.fsum(rows.tolist()) / count, scale=scale)


def _distance(module: nn.PairwiseDistance, index: Index, x: Tensor, other: Tensor) -> Formula:
    a, b = (one.double()[index[:-1] if module.keepdim else index] for one in (x + 0 * other, other + 0 * x))
    result, scale = (
        float(one.pow(module.norm).sum().pow(1 / module.norm))
        for one in ((a - b + module.eps).abs(), a.abs() + b.abs())
    )
    text = f"(Σ |input − other + eps|^{module.norm:g})^(1/{module.norm:g})"
    return Formula(text, {"input": a, "other": b, "eps": _number(module.eps)}, result, scale=scale)


def _bilinear(module: Any, index: Index, x: Tensor, other: Tensor) -> Formula:
    a, b, weight = x.double()[index[:-1]], other.double()[index[:-1]], module.weight.detach().double()[index[-1]]
    products = a[:, None] * weight * b
    terms = [
        (
            f"input[{i}] {float(a[i]):.6g} × {float(weight[i, j]):.6g} × other[{j}] {float(b[j]):.6g}",
            float(products[i, j]),
        )
        for i in range(len(a))
        for j in range(len(b))
    ]
    operands = {"input": a, "weight": weight, "other": b}
    if module.bias is not None:
        operands["bias"] = module.bias.detach().double()[index[-1]]
        terms.append(("bias", float(operands["bias"])))
    text = f"Σ input · weight · other{' + bias' if module.bias is not None else ''}"
    numbers = [number for _, number in terms]
    return Formula(text, operands, math.fsum(numbers), tuple(terms), math.fsum(map(abs, numbers)))


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
            nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
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
    **dict.fromkeys((nn.LPPool1d, nn.LPPool2d, nn.LPPool3d), _power_mean),
    nn.LocalResponseNorm: _response_norm,
    nn.PReLU: _prelu,
    nn.EmbeddingBag: _bag,
    nn.PairwiseDistance: _distance,
    nn.Bilinear: _bilinear,
    nn.GLU: _glu,
    nn.CosineSimilarity: _cosine,
    nn.MultiheadAttention: _attention,
    **dict.fromkeys((nn.RNN, nn.GRU, nn.LSTM, nn.RNNCell, nn.GRUCell, nn.LSTMCell), _recurrent),
}  # fmt: skip
"""By the exact class of the layer: a derived class may compute something else."""
