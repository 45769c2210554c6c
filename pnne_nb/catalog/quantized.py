"""Layers with weights of lower precision, by which `pn.quantize` replaces layers.

The palette does not list them, because their ranges are measured and their weights are converted, not drawn. A document
may name them, and a file that does so opens anywhere. The operators are torch's own (``quantized_decomposed``):
``torch.compile`` makes int8 kernels of them, and ``torch.onnx`` writes QuantizeLinear and DequantizeLinear.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn

from pnne_nb.catalog.custom import describe
from pnne_nb.graph.schema.spec import NodeSpec

Kind = Literal["static", "dynamic", "weight_only", "bfloat16", "float16"]
"""``"static"``: int8 weights, inputs as 8-bit numbers of a fixed range; ``"dynamic"``: the range is that of each batch;
``"weight_only"``: int8 weights, float inputs; ``"bfloat16"``, ``"float16"``: all of the layer in 16 bits."""


# Source that stands alone copies these classes, and can copy no alias: the literals are written out.
class _Quantized(nn.Module):
    """A layer with a low-precision weight, and for int8 one scale for each index of the weight's first axis."""

    bias: torch.Tensor | None

    def _set_up(
        self, shape: tuple[int, ...], kind: str, scale: float = 1.0, zero_point: int = 0, *, bias: bool = False
    ) -> None:
        import torch.ao.quantization.fx._decomposed  # noqa: PLC0415  # defines the operators

        self.kind, self.scale, self.zero_point = kind, scale, zero_point
        self.is_int8 = kind not in ("bfloat16", "float16")
        dtype = torch.int8 if self.is_int8 else getattr(torch, kind)
        self.register_buffer("weight", torch.zeros(shape, dtype=dtype))
        if self.is_int8:
            self.register_buffer("weight_scale", torch.ones(shape[0]))
            self.register_buffer("weight_zero_point", torch.zeros(shape[0], dtype=torch.int64), persistent=False)
        self.register_buffer("bias", torch.zeros(shape[0]) if bias else None)

    def _computed(self, function: Callable[..., torch.Tensor], input: torch.Tensor, *settings: object) -> torch.Tensor:
        """Return the result of `function` for the input, the weight and the bias in the precision of the layer."""
        weight, bias = self.get_buffer("weight"), self.bias
        if self.is_int8:
            decode = torch.ops.quantized_decomposed.dequantize_per_channel
            scales = self.get_buffer("weight_scale"), self.get_buffer("weight_zero_point")
            weight = decode(weight, *scales, 0, -127, 127, torch.int8)
        elif bias is not None:
            bias = bias.to(weight.dtype)
        return function(self._rounded(input), weight, bias, *settings).to(input.dtype)

    def _rounded(self, x: torch.Tensor) -> torch.Tensor:
        """Return the input rounded to 8 bits, or in the precision of the weight."""
        if not self.is_int8:
            return x.to(self.get_buffer("weight").dtype)
        if self.kind == "weight_only":
            return x
        coding = torch.ops.quantized_decomposed
        step: tuple[Any, Any] = (self.scale, self.zero_point)
        if self.kind == "dynamic":
            step = coding.choose_qparams(x, 0, 255, 1e-12, torch.uint8)
        given = (*step, 0, 255, torch.uint8)
        rounded: torch.Tensor = coding.dequantize_per_tensor(coding.quantize_per_tensor(x, *given), *given)
        return rounded


class QuantizedLinear(_Quantized):
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
        self._set_up((out_features, in_features), kind, scale, zero_point, bias=bias)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return ``input @ weight.T + bias``."""
        return self._computed(F.linear, input)


class QuantizedConv1d(_Quantized):
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
        self.settings = stride, padding, dilation, groups
        self._set_up((out_channels, in_channels // groups, *kernel_size), kind, scale, zero_point, bias=bias)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the convolution of the input."""
        return self._computed(F.conv1d, input, *self.settings)


class QuantizedConv2d(_Quantized):
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
        self.settings = stride, padding, dilation, groups
        self._set_up((out_channels, in_channels // groups, *kernel_size), kind, scale, zero_point, bias=bias)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the convolution of the input."""
        return self._computed(F.conv2d, input, *self.settings)


class QuantizedEmbedding(_Quantized):
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
        self._set_up((num_embeddings, embedding_dim), kind)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return the vectors of the given indices."""
        rows = F.embedding(input, self.get_buffer("weight")).float()
        return rows * self.get_buffer("weight_scale")[input].unsqueeze(-1) if self.kind == "weight_only" else rows


LAYERS: tuple[type[_Quantized], ...] = (QuantizedLinear, QuantizedConv1d, QuantizedConv2d, QuantizedEmbedding)


@functools.cache
def _specs() -> dict[str, NodeSpec]:
    found = [describe(layer, category="Quantized") for layer in LAYERS]
    return {spec.type: spec for spec in found}


def quantized_layer(type: str) -> NodeSpec | None:
    """Return the spec of a layer with weights of lower precision, or None if there is none of that name."""
    return _specs().get(type) if type.startswith("Quantized") else None
