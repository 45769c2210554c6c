"""Converts one layer: from its float weights and the range of its inputs to the node that replaces it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor, nn

from pnne_nb.catalog.quantized import Kind, quantized_layer

KINDS: tuple[Kind, ...] = get_args(Kind)

INT8: frozenset[str] = frozenset({"static", "dynamic", "weight_only"})

LAYERS: Mapping[str, frozenset[type[nn.Module]]] = {
    "static": frozenset({nn.Linear, nn.Conv1d, nn.Conv2d}),
    "dynamic": frozenset({nn.Linear}),
    **dict.fromkeys(("weight_only", "bfloat16", "float16"), frozenset({nn.Linear, nn.Conv1d, nn.Conv2d, nn.Embedding})),
}
"""Layers that each kind can convert."""


@dataclass(frozen=True, slots=True)
class InputRange:
    """The quantization of a layer's inputs to 8-bit numbers.

    Attributes:
        scale: Step between two neighbouring numbers, in the unit of the input.
        zero_point: 8-bit number that stands for 0.
    """

    scale: float = 1.0
    zero_point: int = 0


@dataclass(frozen=True, slots=True)
class ConvertedLayer:
    """A node of lower precision.

    Attributes:
        type: Its node type.
        properties: Its properties.
        tensors: Its weights by name.
    """

    type: str
    properties: Mapping[str, object]
    tensors: Mapping[str, Tensor]

    def module(self) -> nn.Module:
        """Return the layer as a module of its own."""
        spec = quantized_layer(self.type)
        assert spec is not None, "the types are ours"
        made: nn.Module = spec.torch(**self.properties)  # type: ignore[operator]  # a class
        made.load_state_dict(dict(self.tensors))
        return made.eval()


def unfit(layer: nn.Module, kind: Kind) -> str:
    """Return why a layer cannot be converted; empty if it can."""
    if type(layer) not in LAYERS[kind]:
        return _no_form(layer, kind)
    weight = layer.get_parameter("weight").detach()
    if weight.dtype != torch.float32:
        return f"its weights are {str(weight.dtype).removeprefix('torch.')}, not float32"
    if not weight.isfinite().all():
        return "its weights are not finite"
    if kind == "float16" and float(weight.abs().max()) > torch.finfo(torch.float16).max:
        return "its weights are too large for float16: use bfloat16"
    if isinstance(layer, nn.Embedding) and (layer.max_norm is not None or layer.scale_grad_by_freq):
        return "it changes its weights in the forward pass (max_norm)"
    if isinstance(layer, (nn.Conv1d, nn.Conv2d)):
        if layer.padding_mode != "zeros":
            return f"its padding mode is {layer.padding_mode!r}, and int8 convolutions pad with zeros"
        if _padding(layer) is None:
            return "its padding is not the same at both sides"
    return ""


def _no_form(layer: nn.Module, kind: Kind) -> str:
    name = type(layer).__name__
    if isinstance(layer, nn.RNNBase):
        return f"there is no {kind.replace('_', '-')} kernel for recurrent layers ({name})"
    if kind == "dynamic" and type(layer) in LAYERS["static"]:
        return 'there is no dynamic int8 convolution: use kind="static"'
    if isinstance(layer, nn.Embedding):
        return 'its input is indices, which have no range: use kind="weight_only"'
    if hasattr(layer, "parametrizations"):
        return "its weights are computed by a parametrization: remove that first"
    return f"there is no {kind.replace('_', '-')} form of {name}"


def convert(layer: nn.Module, kind: Kind, inputs: InputRange) -> ConvertedLayer:
    """Return the node that replaces a layer.

    Int8 weights are symmetric, from -127 to 127, with one scale for each output channel or row.

    Args:
        layer: One of which `unfit` says nothing.
        kind: What to convert to.
        inputs: Of the layer, for ``"static"``.
    """
    weight = layer.get_parameter("weight").detach()
    properties: dict[str, Any] = {"kind": kind}
    match layer:
        case nn.Embedding():
            properties |= {"num_embeddings": layer.num_embeddings, "embedding_dim": layer.embedding_dim}
        case nn.Linear():
            properties |= {"in_features": layer.in_features, "out_features": layer.out_features}
        case nn.Conv1d() | nn.Conv2d():
            names = ("in_channels", "out_channels", "kernel_size", "stride", "dilation", "groups")
            properties |= {name: getattr(layer, name) for name in names} | {"padding": _padding(layer)}
        case _:
            raise AssertionError("looked at before")
    tensors = _coded(weight, kind)
    if not isinstance(layer, nn.Embedding):
        properties["bias"] = layer.bias is not None
        if layer.bias is not None:
            tensors["bias"] = layer.bias.detach().clone()
    if kind == "static":
        properties |= {"scale": inputs.scale, "zero_point": inputs.zero_point}
    return ConvertedLayer(f"Quantized{type(layer).__name__}", properties, tensors)


def _coded(weight: Tensor, kind: Kind) -> dict[str, Tensor]:
    if kind not in INT8:
        return {"weight": weight.to(getattr(torch, kind))}
    largest = weight.abs().flatten(1).amax(1)
    scale = torch.where(largest > 0, largest / 127, torch.ones_like(largest))
    steps = weight / scale.reshape(-1, *[1] * (weight.dim() - 1))
    return {"weight": steps.round().clamp(-127, 127).to(torch.int8), "weight_scale": scale}


def _padding(layer: nn.Conv1d | nn.Conv2d) -> tuple[int, ...] | None:
    """Return the zeros at each side, or None if the sides differ."""
    if isinstance(layer.padding, tuple):
        return tuple(layer.padding)
    if layer.padding == "valid":
        return tuple(0 for _ in layer.kernel_size)
    total = [step * (size - 1) for step, size in zip(layer.dilation, layer.kernel_size, strict=True)]
    return None if any(each % 2 for each in total) else tuple(each // 2 for each in total)
