"""Rules that infer ``"auto"`` sizes from the shapes of a node's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import final

import msgspec


@final
class SizeOf(msgspec.Struct, frozen=True):
    """The size of one axis of one input.

    Attributes:
        input: Index into `NodeSpec.inputs`.
        axis: As in ``tensor.shape[axis]``.
    """

    input: int
    axis: int


def _rules() -> dict[tuple[str, str], SizeOf]:
    last, second = SizeOf(0, -1), SizeOf(0, 1)
    rules = {
        ("Linear", "in_features"): last,
        ("Bilinear", "in1_features"): last,
        ("Bilinear", "in2_features"): SizeOf(1, -1),
        ("LayerNorm", "normalized_shape"): last,
        ("RMSNorm", "normalized_shape"): last,
        ("GroupNorm", "num_channels"): second,
        ("SyncBatchNorm", "num_features"): second,
        ("MultiheadAttention", "embed_dim"): last,
        ("MultiheadAttention", "kdim"): SizeOf(1, -1),
        ("MultiheadAttention", "vdim"): SizeOf(2, -1),
        ("AdaptiveLogSoftmaxWithLoss", "in_features"): last,
        ("LinearCrossEntropyLoss", "in_features"): last,
        ("PReLU", "num_parameters"): second,
    }
    for rank in (1, 2, 3):
        rules[f"Conv{rank}d", "in_channels"] = SizeOf(0, -rank - 1)
        rules[f"ConvTranspose{rank}d", "in_channels"] = SizeOf(0, -rank - 1)
        rules[f"BatchNorm{rank}d", "num_features"] = second
        rules[f"InstanceNorm{rank}d", "num_features"] = SizeOf(0, -rank - 1)
    for name in ("RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"):
        rules[name, "input_size"] = last
    for name in ("", "Encoder", "Decoder", "EncoderLayer", "DecoderLayer"):
        rules[f"Transformer{name}", "d_model"] = last
    return rules


AUTOMATIC: Mapping[tuple[str, str], SizeOf] = MappingProxyType(_rules())
"""Rule by (type, property): these properties accept ``"auto"``, and default to it where torch has no default."""
