"""Layers with weights of lower precision, by which `pn.quantize` replaces layers.

The palette does not list them, because their ranges are measured and their weights are converted, not drawn. A document
may name them, and a file that does so opens anywhere. The operators are torch's own (``quantized_decomposed``):
``torch.compile`` makes int8 kernels of them, and ``torch.onnx`` writes QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn

from pnne_nb.catalog.custom import describe
from pnne_nb.graph.schema.spec import NodeSpec

Kind = Literal["static", "dynamic", "weight_only", "bfloat16", "float16"]
"""``"static"``: int8 weights, inputs as 8-bit numbers of a fixed range; ``"dynamic"``: the range is that of each batch;
``"weight_only"``: int8 weights, float inputs; ``"bfloat16"``, ``"float16"``: all of the layer in 16 bits."""


def add_weight(layer: nn.Module, shape: tuple[int, ...], kind: str) -> None:
    """Give a layer its low-precision weight, and for int8 one scale for each index of the first axis."""
    import torch.ao.quantization.fx._decomposed  # noqa: PLC0415  # defines the operators

    if kind in ("bfloat16", "float16"):
        layer.register_buffer("weight", torch.zeros(shape, dtype=getattr(torch, kind)))
        return
    layer.register_buffer("weight", torch.zeros(shape, dtype=torch.int8))
    layer.register_buffer("weight_scale", torch.ones(shape[0]))
    layer.register_buffer("weight_zero_point", torch.zeros(shape[0], dtype=torch.int64), persistent=False)


def float_weight(layer: Any) -> torch.Tensor:
    """Return the weight that a layer computes with."""
    if layer.kind in ("bfloat16", "float16"):
        sixteen: torch.Tensor = layer.weight
        return sixteen
    decode = torch.ops.quantized_decomposed.dequantize_per_channel
    found: torch.Tensor = decode(layer.weight, layer.weight_scale, layer.weight_zero_point, 0, -127, 127, torch.int8)
    return found


def float_bias(layer: Any) -> torch.Tensor | None:
    """Return the bias in the precision that a layer computes in."""
    bias: torch.Tensor | None = layer.bias
    return bias if bias is None or layer.kind not in ("bfloat16", "float16") else bias.to(layer.weight.dtype)


def float_input(x: torch.Tensor, layer: Any) -> torch.Tensor:
    """Return the input that a layer computes with: rounded to 8 bits, or in the precision of the weight."""
    coding = torch.ops.quantized_decomposed
    rounded: torch.Tensor
    if layer.kind == "static":
        given = (layer.scale, layer.zero_point, 0, 255, torch.uint8)
        rounded = coding.dequantize_per_tensor(coding.quantize_per_tensor(x, *given), *given)
        return rounded
    if layer.kind == "dynamic":
        scale, zero_point = coding.choose_qparams(x, 0, 255, 1e-12, torch.uint8)
        found = (scale, zero_point, 0, 255, torch.uint8)
        rounded = coding.dequantize_per_tensor(coding.quantize_per_tensor(x, *found), *found)
        return rounded
    return x if layer.kind == "weight_only" else x.to(layer.weight.dtype)


class QuantizedLinear(nn.Module):
    """A linear layer with weights of lower precision.

    Args:
        in_features: Size of each input.
        out_features: Size of each output.
        bias: Whether there is a bias, which stays float32.
        kind: What is stored and computed in lower precision.
        scale: Step between two neighbouring 8-bit inputs, for ``"static"``.
        zero_point: 8-bit number that stands for 0, for ``"static"``.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        kind: Literal["static", "dynamic", "weight_only", "bfloat16", "float16"] = "weight_only",
        scale: float = 1.0,
        zero_point: int = 0,
    ) -> None:
        super().__init__()
        self.kind, self.scale, self.zero_point = kind, scale, zero_point
        add_weight(self, (out_features, in_features), kind)
        self.register_buffer("bias", torch.zeros(out_features) if bias else None)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return ``input @ weight.T + bias``."""
        return F.linear(float_input(input, self), float_weight(self), float_bias(self)).to(input.dtype)


class QuantizedConv1d(nn.Module):
    """A 1D convolution with weights of lower precision.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: Size of the kernel.
        stride: Step of the kernel.
        padding: Zeros at each side.
        dilation: Distance between the kernel's elements.
        groups: Number of groups that channels are divided into.
        bias: Whether there is a bias, which stays float32.
        kind: What is stored and computed in lower precision.
        scale: Step between two neighbouring 8-bit inputs, for ``"static"``.
        zero_point: 8-bit number that stands for 0, for ``"static"``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int],
        stride: tuple[int] = (1,),
        padding: tuple[int] = (0,),
        dilation: tuple[int] = (1,),
        groups: int = 1,
        bias: bool = True,
        kind: Literal["static", "dynamic", "weight_only", "bfloat16", "float16"] = "weight_only",
        scale: float = 1.0,
        zero_point: int = 0,
    ) -> None:
        super().__init__()
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.kind, self.scale, self.zero_point = kind, scale, zero_point
        add_weight(self, (out_channels, in_channels // groups, *kernel_size), kind)
        self.register_buffer("bias", torch.zeros(out_channels) if bias else None)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the convolution of the input."""
        weight = float_weight(self)
        settings = (self.stride, self.padding, self.dilation, self.groups)
        return F.conv1d(float_input(input, self), weight, float_bias(self), *settings).to(input.dtype)


class QuantizedConv2d(nn.Module):
    """A 2D convolution with weights of lower precision; for the arguments see `QuantizedConv1d`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
        groups: int = 1,
        bias: bool = True,
        kind: Literal["static", "dynamic", "weight_only", "bfloat16", "float16"] = "weight_only",
        scale: float = 1.0,
        zero_point: int = 0,
    ) -> None:
        super().__init__()
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.kind, self.scale, self.zero_point = kind, scale, zero_point
        add_weight(self, (out_channels, in_channels // groups, *kernel_size), kind)
        self.register_buffer("bias", torch.zeros(out_channels) if bias else None)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the convolution of the input."""
        weight = float_weight(self)
        settings = (self.stride, self.padding, self.dilation, self.groups)
        return F.conv2d(float_input(input, self), weight, float_bias(self), *settings).to(input.dtype)


class QuantizedEmbedding(nn.Module):
    """A table of vectors as int8 numbers or in 16 bits: only the rows that are looked up become float32.

    Args:
        num_embeddings: Rows of the table.
        embedding_dim: Size of each vector.
        kind: ``"weight_only"``, ``"bfloat16"`` or ``"float16"``.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        kind: Literal["weight_only", "bfloat16", "float16"] = "weight_only",
    ) -> None:
        super().__init__()
        self.kind = kind
        add_weight(self, (num_embeddings, embedding_dim), kind)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the vectors of the given indices."""
        rows = F.embedding(input, self.get_buffer("weight")).float()
        return rows * self.get_buffer("weight_scale")[input].unsqueeze(-1) if self.kind == "weight_only" else rows


LAYERS: tuple[type[nn.Module], ...] = (QuantizedLinear, QuantizedConv1d, QuantizedConv2d, QuantizedEmbedding)


@functools.cache
def _specs() -> dict[str, NodeSpec]:
    found = [describe(layer, category="Quantized") for layer in LAYERS]
    return {spec.type: spec for spec in found}


def quantized_layer(type: str) -> NodeSpec | None:
    """Return the spec of a layer with weights of lower precision, or None if there is none of that name."""
    return _specs().get(type) if type.startswith("Quantized") else None
