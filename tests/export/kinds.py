"""The kinds of graphs that a person draws, to export each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import pnne_nb as pn
from tests.compiler.graphs import wire

Nodes = tuple[tuple[Any, ...], ...]


def register() -> None:
    """Put the custom node types into the catalogue."""

    @pn.register_node(category="Custom", replace=True)
    class Gate(nn.Module):
        def __init__(self, features: int = 8) -> None:
            super().__init__()
            self.mix = nn.Linear(features, features)

        def forward(self, x: Tensor) -> Tensor:
            return x * torch.sigmoid(self.mix(x))

    @pn.register_node(category="Custom", replace=True)
    def centred(x: Tensor, scale: float = 2.0) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) * scale


def draw(name: str, nodes: Nodes, *chains: str) -> pn.NodeGraph:
    """Return a graph of nodes ``(type, name, properties)`` and chains of names."""
    graph = pn.NodeGraph(name)
    for type, node, *rest in nodes:
        graph.add(type, node, **(rest[0] if rest else {}))
    return wire(graph, *chains)


def chained(name: str, shape: tuple[int | str, ...], *nodes: tuple[Any, ...], dtype: str = "float32") -> pn.NodeGraph:
    """Return a graph of one chain from Input ``x`` to Output ``y``."""
    whole = (("Input", "x", {"shape": shape, "dtype": dtype}), *nodes, ("Output", "y"))
    return draw(name, whole, " ".join(node[1] for node in whole))


def conv(name: str, i: int, o: int, k: int = 3, **more: Any) -> tuple[str, str, dict[str, Any]]:
    return "Conv2d", name, {"in_channels": i, "out_channels": o, "kernel_size": k, "padding": k // 2, **more}


def linear(name: str, i: int, o: int, **more: Any) -> tuple[str, str, dict[str, Any]]:
    return "Linear", name, {"in_features": i, "out_features": o, **more}


def mlp() -> pn.NodeGraph:
    return chained("mlp", ("N", 8), linear("fc1", 8, 16), ("Tanh", "act"), linear("fc2", 16, 4))


def cnn() -> pn.NodeGraph:
    return chained(
        "cnn", ("N", 1, 28, 28), conv("conv1", 1, 6), ("ReLU", "relu1"), ("MaxPool2d", "pool1", {"kernel_size": 2}),
        conv("conv2", 6, 12), ("BatchNorm2d", "bn", {"num_features": 12}), ("relu", "relu2"),
        ("AvgPool2d", "pool2", {"kernel_size": 2}), ("Flatten", "flat"), linear("fc", 588, 10),
        ("softmax", "prob", {"dim": 1}),
    )  # fmt: skip


def fully_convolutional() -> pn.NodeGraph:
    return chained(
        "fcn", ("N", 3, "H", "W"), conv("conv1", 3, 8, stride=2), ("GroupNorm", "norm", {"num_groups": 2, "num_channels": 8}),
        ("GELU", "act"), conv("conv2", 8, 8, groups=8), ("mean", "gap", {"dim": (2, 3)}), linear("fc", 8, 5),
    )  # fmt: skip


def resnet() -> pn.NodeGraph:
    return draw(
        "resnet",
        (
            ("Input", "x", {"shape": ("N", 3, 32, 32)}), conv("stem", 3, 8), ("BatchNorm2d", "bn0", {"num_features": 8}),
            conv("conv1", 8, 8), ("BatchNorm2d", "bn1", {"num_features": 8}), ("ReLU", "relu1", {"inplace": True}),
            conv("conv2", 8, 8), ("BatchNorm2d", "bn2", {"num_features": 8}), ("add", "sum1"), ("ReLU", "relu2"),
            conv("down", 8, 16, stride=2), conv("skip", 8, 16, 1, stride=2), ("add", "sum2"), ("ReLU", "relu3"),
            ("AdaptiveAvgPool2d", "pool", {"output_size": 1}), ("Flatten", "flat"), linear("fc", 16, 10), ("Output", "y"),
        ),
        "x stem bn0 conv1 bn1 relu1 conv2 bn2 sum1.input", "bn0 sum1.other", "sum1 relu2 down sum2.input",
        "relu2 skip sum2.other", "sum2 relu3 pool flat fc y",
    )  # fmt: skip


def unet() -> pn.NodeGraph:
    return draw(
        "unet",
        (
            ("Input", "x", {"shape": ("N", 1, 32, 32)}), conv("enc1", 1, 8), ("ReLU", "r1"),
            ("MaxPool2d", "down1", {"kernel_size": 2}), conv("enc2", 8, 16), ("ReLU", "r2"),
            ("MaxPool2d", "down2", {"kernel_size": 2}), conv("mid", 16, 16), ("ReLU", "r3"),
            ("ConvTranspose2d", "up2", {"in_channels": 16, "out_channels": 16, "kernel_size": 2, "stride": 2}),
            ("cat", "cat2", {"dim": 1}), conv("dec2", 32, 8), ("ReLU", "r4"),
            ("Upsample", "up1", {"scale_factor": 2.0, "mode": "nearest"}), ("cat", "cat1", {"dim": 1}),
            conv("dec1", 16, 2, 1), ("Output", "mask"),
        ),
        "x enc1 r1 down1 enc2 r2 down2 mid r3 up2 cat2.tensors", "r2 cat2.tensors", "cat2 dec2 r4 up1 cat1.tensors",
        "r1 cat1.tensors", "cat1 dec1 mask",
    )  # fmt: skip


def lstm() -> pn.NodeGraph:
    return draw(
        "lstm",
        (
            ("Input", "x", {"shape": ("N", "T", 8)}),
            ("LSTM", "lstm", {"input_size": 8, "hidden_size": 12, "batch_first": True}), linear("fc", 12, 4), ("Output", "y"),
        ),
        "x lstm", "lstm.output fc y",
    )  # fmt: skip


def lstm_last() -> pn.NodeGraph:
    return draw(
        "lstm_last",
        (
            ("Input", "tokens", {"shape": ("N", "T"), "dtype": "int64"}),
            ("Embedding", "embed", {"num_embeddings": 50, "embedding_dim": 8}),
            ("LSTM", "lstm", {"input_size": 8, "hidden_size": 12, "batch_first": True}),
            ("select", "last", {"dim": 1, "index": -1}), linear("fc", 12, 4), ("Output", "y"),
        ),
        "tokens embed lstm", "lstm.output last fc y",
    )  # fmt: skip


def gru() -> pn.NodeGraph:
    return draw(
        "gru",
        (
            ("Input", "x", {"shape": ("N", "T", 8)}),
            ("GRU", "gru", {"input_size": 8, "hidden_size": 6, "batch_first": True, "bidirectional": True}),
            linear("fc", 12, 3), ("Output", "y"),
        ),
        "x gru", "gru.output fc y",
    )  # fmt: skip


def conv1d() -> pn.NodeGraph:
    return chained(
        "audio", ("N", 4, "T"), ("Conv1d", "conv1", {"in_channels": 4, "out_channels": 8, "kernel_size": 3, "stride": 2}),
        ("BatchNorm1d", "bn", {"num_features": 8}), ("ReLU", "relu"), ("mean", "gap", {"dim": (2,)}), linear("fc", 8, 3),
    )  # fmt: skip


def encoder() -> pn.NodeGraph:
    layer = {"d_model": 16, "nhead": 2, "dim_feedforward": 32, "batch_first": True}
    return chained(
        "encoder", ("N", "T", 16), ("TransformerEncoderLayer", "layer1", layer), ("TransformerEncoderLayer", "layer2", layer),
        ("LayerNorm", "norm", {"normalized_shape": (16,)}), linear("head", 16, 5),
    )  # fmt: skip


def decoder() -> pn.NodeGraph:
    layer = {"d_model": 16, "nhead": 2, "dim_feedforward": 32, "batch_first": True}
    return draw(
        "decoder",
        (
            ("Input", "target", {"shape": ("N", "T", 16)}), ("Input", "memory", {"shape": ("N", "S", 16)}),
            ("TransformerDecoderLayer", "layer1", layer), linear("head", 16, 5), ("Output", "y"),
        ),
        "target layer1.tgt", "memory layer1.memory", "layer1 head y",
    )  # fmt: skip


def attention() -> pn.NodeGraph:
    return draw(
        "attention",
        (
            ("Input", "x", {"shape": ("N", "T", 16)}), linear("q", 16, 16), linear("k", 16, 16), linear("v", 16, 16),
            ("transpose", "kt", {"dim0": -2, "dim1": -1}), ("matmul", "scores"), ("mul", "scaled", {"other": 0.25}),
            ("softmax", "weights", {"dim": -1}), ("matmul", "mixed"), linear("out", 16, 16), ("add", "sum"),
            ("LayerNorm", "norm", {"normalized_shape": (16,)}), ("Output", "y"),
        ),
        "x q scores.input", "x k kt scores.other", "scores scaled weights mixed.input", "x v mixed.other",
        "mixed out sum.input", "x sum.other", "sum norm y",
    )  # fmt: skip


def multihead() -> pn.NodeGraph:
    return draw(
        "multihead",
        (
            ("Input", "x", {"shape": ("N", "T", 16)}),
            ("MultiheadAttention", "attn", {"embed_dim": 16, "num_heads": 4, "batch_first": True}), ("Output", "y"),
            ("Output", "weights"),
        ),
        "x attn.query", "x attn.key", "x attn.value", "attn.output y", "attn.attn_weights weights",
    )  # fmt: skip


def fused_attention() -> pn.NodeGraph:
    return draw(
        "fused",
        (
            ("Input", "x", {"shape": ("N", 2, "T", 8)}), linear("q", 8, 8), linear("k", 8, 8), linear("v", 8, 8),
            ("scaled_dot_product_attention", "attn", {"is_causal": True}), ("Output", "y"),
        ),
        "x q attn.query", "x k attn.key", "x v attn.value", "attn y",
    )  # fmt: skip


def siamese() -> pn.NodeGraph:
    return draw(
        "siamese",
        (
            ("Input", "left", {"shape": ("N", 8)}), ("Input", "right", {"shape": ("N", 8)}), linear("embed", 8, 6),
            ("Linear", "embed2", {"shares": "embed"}), ("sub", "difference"), ("abs", "distance"), linear("score", 6, 1),
            ("Output", "y"),
        ),
        "left embed difference.input", "right embed2 difference.other", "difference distance score y",
    )  # fmt: skip


def vae() -> pn.NodeGraph:
    return draw(
        "vae",
        (
            ("Input", "x", {"shape": ("N", 12)}), linear("encode", 12, 8), ("ReLU", "relu"), linear("mean", 8, 3),
            linear("logvar", 8, 3), ("mul", "halved", {"other": 0.5}), ("exp", "std"), ("randn_like", "noise"),
            ("mul", "scaled"), ("add", "z"), linear("decode", 3, 12), ("Output", "y"), ("Output", "mu"),
        ),
        "x encode relu mean z.input", "relu logvar halved std scaled.input", "std noise scaled.other", "scaled z.other",
        "z decode y", "mean mu",
    )  # fmt: skip


def gcn() -> pn.NodeGraph:
    return draw(
        "gcn",
        (
            ("Input", "nodes", {"shape": ("V", 6)}), ("Input", "adjacency", {"shape": ("V", "V")}), linear("w1", 6, 8),
            ("matmul", "spread1"), ("ReLU", "relu"), linear("w2", 8, 3), ("matmul", "spread2"), ("Output", "y"),
        ),
        "adjacency spread1.input", "nodes w1 spread1.other", "spread1 relu w2 spread2.other", "adjacency spread2.input",
        "spread2 y",
    )  # fmt: skip


def multi_input() -> pn.NodeGraph:
    return draw(
        "multi_input",
        (
            ("Input", "image", {"shape": ("N", 1, 8, 8)}), ("Input", "features", {"shape": ("N", 5)}), conv("conv", 1, 4),
            ("Flatten", "flat"), ("cat", "join", {"dim": 1}), linear("fc", 261, 3), ("Output", "y"),
        ),
        "image conv flat join.tensors", "features join.tensors", "join fc y",
    )  # fmt: skip


def multi_output() -> pn.NodeGraph:
    return draw(
        "multi_output",
        (
            ("Input", "x", {"shape": ("N", 8)}), linear("trunk", 8, 8), ("GELU", "act"), linear("classes", 8, 4),
            linear("box", 8, 4), ("sigmoid", "squash"), ("Output", "logits"), ("Output", "boxes"),
        ),
        "x trunk act classes logits", "act box squash boxes",
    )  # fmt: skip


def tied() -> pn.NodeGraph:
    return chained(
        "tied",
        ("N", 8),
        linear("fc1", 8, 8),
        ("ReLU", "relu"),
        ("Linear", "fc2", {"shares": "fc1"}),
        ("Sigmoid", "act"),
    )


def custom() -> pn.NodeGraph:
    register()
    return chained(
        "custom", ("N", "T", 8), ("Gate", "gate", {"features": 8}), ("centred", "centre"), linear("fc", 8, 2)
    )


def nested() -> pn.NodeGraph:
    graph = cnn()
    graph.group(["conv1", "relu1", "pool1"], name="stem")
    graph.group(["conv2", "bn", "relu2", "pool2"], name="body")
    return graph


def autoencoder() -> pn.NodeGraph:
    return chained(
        "autoencoder", ("N", 20), linear("enc1", 20, 10), ("ELU", "a1"), linear("bottleneck", 10, 3), ("Tanh", "a2"),
        linear("dec1", 3, 10), ("LeakyReLU", "a3"), ("Dropout", "drop", {"p": 0.3}), linear("dec2", 10, 20),
    )  # fmt: skip


def embedding_bag() -> pn.NodeGraph:
    return chained(
        "text", ("N", "T"), ("Embedding", "embed", {"num_embeddings": 40, "embedding_dim": 8}), ("mean", "pool", {"dim": (1,)}),
        linear("fc", 8, 3), ("log_softmax", "prob", {"dim": -1}), dtype="int64",
    )  # fmt: skip


def mobile() -> pn.NodeGraph:
    return chained(
        "mobile", ("N", 3, 16, 16), conv("expand", 3, 12, 1), ("BatchNorm2d", "bn1", {"num_features": 12}), ("Hardswish", "act1"),
        conv("depth", 12, 12, groups=12, stride=2), ("BatchNorm2d", "bn2", {"num_features": 12}), ("SiLU", "act2"),
        conv("project", 12, 6, 1), ("AdaptiveAvgPool2d", "pool", {"output_size": 2}), ("Flatten", "flat"), linear("fc", 24, 4),
    )  # fmt: skip


def positions() -> pn.NodeGraph:
    return draw(
        "positions",
        (
            ("Input", "x", {"shape": ("N", 6, 8)}), ("Parameter", "table", {"shape": (6, 8), "init": "normal"}), ("add", "sum"),
            ("LayerNorm", "norm", {"normalized_shape": (8,)}), linear("fc", 8, 4), ("Softplus", "act"), ("Output", "y"),
        ),
        "x sum.input", "table sum.other", "sum norm fc act y",
    )  # fmt: skip


KINDS: dict[str, Callable[[], pn.NodeGraph]] = {
    function.__name__: function
    for function in (
        mlp, cnn, fully_convolutional, resnet, unet, lstm, lstm_last, gru, conv1d, encoder, decoder, attention, multihead,
        fused_attention, siamese, vae, gcn, multi_input, multi_output, tied, custom, nested, autoencoder, embedding_bag,
        mobile, positions,
    )
}  # fmt: skip
