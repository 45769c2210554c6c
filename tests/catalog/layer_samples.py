"""One sample call for every layer: properties, and tensors by port."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pnne_nb.graph.schema.values import Value


class Sample(NamedTuple):
    """What a node is given."""

    values: Mapping[str, Value]
    inputs: Mapping[str, Any]


def rand(*sizes: int) -> Tensor:
    """Return positive random numbers that need gradients."""
    return torch.rand(*sizes, requires_grad=True)


def classes(*sizes: int, count: int = 5) -> Tensor:
    """Return random class indices."""
    return torch.randint(0, count, sizes)


def _probabilities(*sizes: int) -> Tensor:
    return rand(*sizes).detach() * 0.8 + 0.1


_SIZE = 8
_SPATIAL: dict[str, Mapping[str, Value]] = {
    "Conv": {"out_channels": 6, "kernel_size": 3},
    "ConvTranspose": {"out_channels": 6, "kernel_size": 3, "stride": 2},
    "MaxPool": {"kernel_size": 2},
    "AvgPool": {"kernel_size": 2},
    "LPPool": {"norm_type": 2, "kernel_size": 2},
    "AdaptiveAvgPool": {"output_size": 3},
    "AdaptiveMaxPool": {"output_size": 3},
    "FractionalMaxPool": {"kernel_size": 2, "output_size": 3},
    "BatchNorm": {},
    "InstanceNorm": {},
    "Dropout": {},
    "CircularPad": {"padding": 1},
    "ConstantPad": {"padding": 1, "value": 0.5},
    "ReflectionPad": {"padding": 1},
    "ReplicationPad": {"padding": 1},
    "ZeroPad": {"padding": 1},
    "CrossMapLRN": {"size": 2},
    "Softmax": {},
    "UpsamplingBilinear": {"scale_factor": 2},
    "UpsamplingNearest": {"scale_factor": 2},
}
_UNPOOL = re.compile(r"MaxUnpool(\d)d")
_RANKED = re.compile(r"([A-Za-z]+)(\d)d")

_TOKENS = {"src": (2, 5, 8), "tgt": (2, 4, 8), "memory": (2, 5, 8)}
_LAYER: Mapping[str, Value] = {"nhead": 2, "dim_feedforward": 16, "batch_first": True}

SAMPLES: dict[str, Callable[[], Sample]] = {
    "Linear": lambda: Sample({"out_features": 3}, {"input": rand(2, 4)}),
    "Bilinear": lambda: Sample({"out_features": 3}, {"input1": rand(2, 4), "input2": rand(2, 5)}),
    "Embedding": lambda: Sample({"num_embeddings": 5, "embedding_dim": 4}, {"input": classes(2, 3)}),
    "EmbeddingBag": lambda: Sample({"num_embeddings": 5, "embedding_dim": 4}, {"input": classes(2, 3)}),
    "LayerNorm": lambda: Sample({}, {"input": rand(2, 4)}),
    "RMSNorm": lambda: Sample({}, {"x": rand(2, 4)}),
    "GroupNorm": lambda: Sample({"num_groups": 2}, {"input": rand(2, 4, 3)}),
    "SyncBatchNorm": lambda: Sample({}, {"input": rand(2, 4, 3)}),
    "LocalResponseNorm": lambda: Sample({"size": 2}, {"input": rand(2, 4, 3)}),
    "Softmax": lambda: Sample({"dim": 1}, {"input": rand(2, 4)}),
    "LogSoftmax": lambda: Sample({"dim": 1}, {"input": rand(2, 4)}),
    "Softmin": lambda: Sample({"dim": 1}, {"input": rand(2, 4)}),
    "Threshold": lambda: Sample({"threshold": 0.5, "value": 0.0}, {"input": rand(2, 4)}),
    "PixelShuffle": lambda: Sample({"upscale_factor": 2}, {"input": rand(2, 4, 3, 3)}),
    "PixelUnshuffle": lambda: Sample({"downscale_factor": 2}, {"input": rand(2, 1, 4, 4)}),
    "ChannelShuffle": lambda: Sample({"groups": 2}, {"input": rand(2, 4, 3, 3)}),
    "Upsample": lambda: Sample({"scale_factor": 2}, {"input": rand(2, 3, 4, 4)}),
    "Fold": lambda: Sample({"output_size": (4, 4), "kernel_size": 2}, {"input": rand(2, 12, 9)}),
    "Unfold": lambda: Sample({"kernel_size": 2}, {"input": rand(2, 3, 4, 4)}),
    "Unflatten": lambda: Sample({"dim": 1, "unflattened_size": (2, 2)}, {"input": rand(2, 4)}),
    "CosineSimilarity": lambda: Sample({}, {"x1": rand(2, 4), "x2": rand(2, 4)}),
    "PairwiseDistance": lambda: Sample({}, {"x1": rand(2, 4), "x2": rand(2, 4)}),
    "RNN": lambda: Sample({"hidden_size": 3}, {"input": rand(5, 2, 4)}),
    "LSTM": lambda: Sample({"hidden_size": 3, "num_layers": 2, "bidirectional": True}, {"input": rand(5, 2, 4)}),
    "GRU": lambda: Sample({"hidden_size": 3}, {"input": rand(5, 2, 4), "hx": rand(1, 2, 3)}),
    "RNNCell": lambda: Sample({"hidden_size": 3}, {"input": rand(2, 4)}),
    "LSTMCell": lambda: Sample({"hidden_size": 3}, {"input": rand(2, 4), "hx": (rand(2, 3), rand(2, 3))}),
    "GRUCell": lambda: Sample({"hidden_size": 3}, {"input": rand(2, 4)}),
    "MultiheadAttention": lambda: Sample(
        {"num_heads": 2, "average_attn_weights": False},
        {"query": rand(5, 2, 8), "key": rand(6, 2, 8), "value": rand(6, 2, 8)},
    ),
    "Transformer": lambda: Sample(
        {**_LAYER, "d_model": "auto", "num_encoder_layers": 1, "num_decoder_layers": 1},
        {name: rand(*_TOKENS[name]) for name in ("src", "tgt")},
    ),
    "TransformerEncoderLayer": lambda: Sample(_LAYER, {"src": rand(*_TOKENS["src"])}),
    "TransformerEncoder": lambda: Sample(
        {**_LAYER, "num_layers": 2, "norm": True, "enable_nested_tensor": False}, {"src": rand(*_TOKENS["src"])}
    ),
    "TransformerDecoderLayer": lambda: Sample(_LAYER, {name: rand(*_TOKENS[name]) for name in ("tgt", "memory")}),
    "TransformerDecoder": lambda: Sample(
        {**_LAYER, "num_layers": 2}, {name: rand(*_TOKENS[name]) for name in ("tgt", "memory")}
    ),
    "AdaptiveLogSoftmaxWithLoss": lambda: Sample(
        {"n_classes": 10, "cutoffs": (4,)}, {"input_": rand(3, 8), "target_": classes(3, count=10)}
    ),
    "LinearCrossEntropyLoss": lambda: Sample({"num_classes": 5}, {"input": rand(3, 8), "target": classes(3)}),
    "BCELoss": lambda: Sample(
        {"weight": ((0.5,), (2.0,))}, {"input": _probabilities(2, 3), "target": _probabilities(2, 3)}
    ),
    "CrossEntropyLoss": lambda: Sample(
        {"label_smoothing": 0.1, "weight": (0.5, 1.0, 1.5, 2.0, 0.0)}, {"input": rand(3, 5), "target": classes(3)}
    ),
    "KLDivLoss": lambda: Sample({"reduction": "batchmean"}, {"input": rand(3, 4).log(), "target": rand(3, 4).detach()}),
    "NLLLoss": lambda: Sample({"weight": (0.5, 1.0, 1.5, 2.0, 0.0)}, {"input": rand(3, 5), "target": classes(3)}),
    "MultiMarginLoss": lambda: Sample(
        {"p": 2, "weight": (0.5, 1.0, 1.5, 2.0, 0.0)}, {"input": rand(3, 5), "target": classes(3)}
    ),
    "MultiLabelMarginLoss": lambda: Sample({}, {"input": rand(3, 5), "target": classes(3, 5)}),
    "MarginRankingLoss": lambda: Sample({}, {"input1": rand(3), "input2": rand(3), "target": torch.ones(3)}),
    "CosineEmbeddingLoss": lambda: Sample({}, {"input1": rand(3, 4), "input2": rand(3, 4), "target": torch.ones(3)}),
    "GaussianNLLLoss": lambda: Sample({}, {"input": rand(3, 4), "target": rand(3, 4), "var": rand(3, 4)}),
    "PoissonNLLLoss": lambda: Sample({}, {"log_input": rand(3, 4), "target": rand(3, 4)}),
    "TripletMarginLoss": lambda: Sample(
        {"swap": True}, {"anchor": rand(3, 4), "positive": rand(3, 4), "negative": rand(3, 4)}
    ),
    "TripletMarginWithDistanceLoss": lambda: Sample(
        {}, {"anchor": rand(3, 4), "positive": rand(3, 4), "negative": rand(3, 4)}
    ),
    "CTCLoss": lambda: Sample(
        {},
        {
            "log_probs": rand(6, 2, 5).log_softmax(2).detach().requires_grad_(),
            "targets": torch.ones(2, 3, dtype=torch.long),
            "input_lengths": torch.tensor([6, 6]),
            "target_lengths": torch.tensor([3, 2]),
        },
    ),
}


def sample(name: str) -> Sample:
    """Return properties and inputs for the layer `name`."""
    if name in SAMPLES:
        return SAMPLES[name]()
    if match := _UNPOOL.fullmatch(name):
        rank = int(match[1])
        pool: Any = getattr(torch.nn, f"MaxPool{rank}d")(2, return_indices=True)
        pooled, indices = pool(rand(2, 4, *[_SIZE] * rank))
        return Sample({"kernel_size": 2}, {"input": pooled.detach().requires_grad_(), "indices": indices})
    if match := _RANKED.fullmatch(name):
        return Sample(_SPATIAL[match[1]], {"input": rand(2, 4, *[_SIZE] * int(match[2]))})
    if name.endswith("Loss"):
        return Sample({}, {"input": rand(3, 4), "target": rand(3, 4).detach()})
    return Sample({}, {"input": rand(2, 4)})
