"""Networks to begin with, offered in the palette of every editor: each compiles as it is.

The library is a document with one Subgraph node for each template, like the library of the user's blocks. In an empty graph, a
template is inserted node by node; beside other nodes, as one block.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.sequential import sequential
from pnne_nb.graph.storage import DocumentState, GraphState, NodeState


def lenet() -> NodeGraph:
    """Classifies small grey pictures: two convolutions, three linear layers."""
    return sequential(
        ("Conv2d", {"name": "conv1", "out_channels": 6, "kernel_size": 5, "padding": 2}),
        ("ReLU", {"name": "relu1"}),
        ("MaxPool2d", {"name": "pool1", "kernel_size": 2}),
        ("Conv2d", {"name": "conv2", "out_channels": 16, "kernel_size": 5}),
        ("ReLU", {"name": "relu2"}),
        ("MaxPool2d", {"name": "pool2", "kernel_size": 2}),
        ("Flatten", {"name": "flatten"}),
        ("Linear", {"name": "fc1", "out_features": 120}),
        ("ReLU", {"name": "relu3"}),
        ("Linear", {"name": "fc2", "out_features": 84}),
        ("ReLU", {"name": "relu4"}),
        ("Linear", {"name": "fc3", "out_features": 10}),
        input=("N", 1, 28, 28),
    )


def resnet_block() -> NodeGraph:
    """Two convolutions with batch normalization, and the input added to what they give."""
    graph = _begun("N", 64, "H", "W")
    graph.chain(
        ("Conv2d", {"name": "conv1", "out_channels": 64, "kernel_size": 3, "padding": 1, "bias": False}),
        ("BatchNorm2d", {"name": "bn1"}),
        ("ReLU", {"name": "relu1"}),
        ("Conv2d", {"name": "conv2", "out_channels": 64, "kernel_size": 3, "padding": 1, "bias": False}),
        ("BatchNorm2d", {"name": "bn2"}),
    )
    _added(graph, "sum", "bn2", "x")
    graph.add("ReLU", name="relu2")
    return _ended(graph, "sum", "relu2")


def u_net() -> NodeGraph:
    """Gives every pixel of a picture a value: down twice, up twice, with links across."""
    graph = _begun("N", 3, 64, 64)
    last = "x"
    for level, channels in (("1", 16), ("2", 32)):
        last = _convolved(graph, f"down{level}", channels, last)
        graph.add("MaxPool2d", name=f"pool{level}", kernel_size=2)
        graph.connect(last, f"pool{level}")
        last = f"pool{level}"
    last = _convolved(graph, "middle", 64, last)
    for level, channels in (("2", 32), ("1", 16)):
        graph.add("ConvTranspose2d", name=f"grow{level}", out_channels=channels, kernel_size=2, stride=2)
        graph.add("cat", name=f"join{level}", dim=1)
        graph.connect(last, f"grow{level}")
        graph.connect(f"down{level}_relu.output", f"join{level}.tensors_0")
        graph.connect(f"grow{level}.output", f"join{level}.tensors_1")
        last = _convolved(graph, f"up{level}", channels, f"join{level}")
    graph.add("Conv2d", name="classes", out_channels=2, kernel_size=1)
    return _ended(graph, last, "classes")


def autoencoder() -> NodeGraph:
    """Presses small grey pictures into 32 numbers, and makes pictures of them again."""
    return sequential(
        ("Flatten", {"name": "flatten"}),
        ("Linear", {"name": "encode1", "out_features": 128}),
        ("ReLU", {"name": "relu1"}),
        ("Linear", {"name": "code", "out_features": 32}),
        ("Linear", {"name": "decode1", "out_features": 128}),
        ("ReLU", {"name": "relu2"}),
        ("Linear", {"name": "decode2", "out_features": 784}),
        ("Sigmoid", {"name": "sigmoid"}),
        ("Unflatten", {"name": "unflatten", "dim": 1, "unflattened_size": (1, 28, 28)}),
        input=("N", 1, 28, 28),
    )


def gpt_block() -> NodeGraph:
    """Causal attention with four heads, and two linear layers, each added to what came."""
    graph = _begun("N", "T", 128)
    graph.chain(("LayerNorm", {"name": "ln1"}), ("Linear", {"name": "qkv", "out_features": 384}))
    graph.add("chunk", name="chunk", chunks=3, dim=-1)
    graph.connect("qkv", "chunk")
    graph.add("scaled_dot_product_attention", name="attention", is_causal=True)
    for place, (part, port) in enumerate((("q", "query"), ("k", "key"), ("v", "value"))):
        graph.add("getitem", name=part, index=place)
        graph.add("unflatten", name=f"{part}_heads", dim=-1, sizes=(4, 32))
        graph.add("transpose", name=f"{part}_first", dim0=1, dim1=2)
        graph.connect("chunk.output", f"{part}.input")
        graph.connect(part, f"{part}_heads", f"{part}_first")
        graph.connect(f"{part}_first.output", f"attention.{port}")
    graph.add("transpose", name="back", dim0=1, dim1=2)
    graph.add("flatten", name="joined", start_dim=2)
    graph.add("Linear", name="proj", out_features=128)
    graph.connect("attention", "back", "joined", "proj")
    _added(graph, "sum1", "proj", "x")
    graph.add("LayerNorm", name="ln2")
    graph.add("Linear", name="fc1", out_features=512)
    graph.add("GELU", name="gelu")
    graph.add("Linear", name="fc2", out_features=128)
    graph.connect("sum1", "ln2", "fc1", "gelu", "fc2")
    _added(graph, "sum2", "fc2", "sum1")
    return _ended(graph, "sum2")


def lstm_classifier() -> NodeGraph:
    """Reads a row of words from a vocabulary of 1,000, and tells it from another kind."""
    graph = NodeGraph("template")
    graph.add("Input", name="x", shape=("N", "T"), dtype="int64")
    graph.add("Embedding", name="embedding", num_embeddings=1000, embedding_dim=64)
    graph.add("LSTM", name="lstm", hidden_size=128, batch_first=True)
    graph.add("getitem", name="last", index=(slice(None), -1))
    graph.add("Linear", name="fc", out_features=2)
    graph.connect("x", "embedding", "lstm")
    graph.connect("lstm.output", "last.input")
    return _ended(graph, "last", "fc")


TEMPLATES: Final[dict[str, Callable[[], NodeGraph]]] = {
    "LeNet": lenet,
    "ResNet_block": resnet_block,
    "U_Net": u_net,
    "Autoencoder": autoencoder,
    "GPT_block": gpt_block,
    "LSTM_classifier": lstm_classifier,
}
"""The function that draws each template, by the name of its block."""


@cache
def template_library() -> DocumentState:
    """Return the document of all templates, arranged; it is made once in a process."""
    blocks: list[NodeState] = []
    graphs: dict[str, GraphState] = {}
    for name, draw in TEMPLATES.items():
        graph = draw()
        graph.arrange()
        state = graph.state()
        graphs[name] = state.graphs[""]
        blocks.append(NodeState(name, "Subgraph", {"definition": name}))
    return msgspec.structs.replace(state, name="templates", graphs={"": GraphState(tuple(blocks)), **graphs})


def _begun(*shape: int | str) -> NodeGraph:
    graph = NodeGraph("template")
    graph.add("Input", name="x", shape=shape)
    return graph


def _ended(graph: NodeGraph, *last: str) -> NodeGraph:
    graph.add("Output", name="y")
    graph.connect(*last, "y")
    return graph


def _convolved(graph: NodeGraph, name: str, channels: int, source: str) -> str:
    """Append a convolution that keeps the size, with a ReLU; return the last node's name."""
    graph.add("Conv2d", name=name, out_channels=channels, kernel_size=3, padding=1)
    graph.add("ReLU", name=f"{name}_relu")
    graph.connect(source, name, f"{name}_relu")
    return f"{name}_relu"


def _added(graph: NodeGraph, name: str, one: str, other: str) -> None:
    graph.add("add", name=name)
    graph.connect(f"{one}.output", f"{name}.input")
    graph.connect(f"{other}.output", f"{name}.other")
