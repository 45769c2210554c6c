"""Documents that the tests of passes share."""

from __future__ import annotations

import torch

import pnne_nb as pn
from tests.compiler.graphs import wire


def redundant() -> pn.NodeGraph:
    """A chain with a dead branch, a computed constant and a computation made twice."""
    graph = pn.NodeGraph("redundant")
    graph.add("Input", "x", shape=("N", 8))
    graph.add("Linear", "fc", in_features=8, out_features=4)
    graph.add("relu", "one")
    graph.add("relu", "two")
    graph.add("add", "sum")
    graph.add("arange", "count", start=0, end=4)
    graph.add("mul", "even", other=2)
    graph.add("add", "moved")
    graph.add("Linear", "unused", in_features=4, out_features=2)
    graph.add("tanh", "end")
    graph.add("Output", "y")
    return wire(
        graph,
        "x fc one sum.input",
        "fc two sum.other",
        "count even.input",
        "sum moved.input",
        "even moved.other",
        "moved y",
        "fc unused end",
    )


def convnet(blocks: int = 2, *, dropout: float = 0.0) -> pn.NodeGraph:
    """Nested blocks of convolution, normalisation and activation, each a definition of its own."""
    graph = pn.NodeGraph("convnet")
    graph.add("Input", "x", shape=("N", 3, 8, 8))
    graph.add("Conv2d", "stem", in_channels=3, out_channels=8, kernel_size=3, padding=1)
    last = "stem"
    graph.connect("x", "stem")
    for number in range(blocks):
        names = [f"conv{number}", f"norm{number}", f"relu{number}", f"drop{number}"]
        graph.add("Conv2d", names[0], in_channels=8, out_channels=8, kernel_size=3, padding=1, bias=False)
        graph.add("BatchNorm2d", names[1], num_features=8)
        graph.add("ReLU", names[2])
        graph.add("Dropout", names[3], p=dropout)
        wire(graph, f"{last} {' '.join(names)}")
        last = names[-1]
    graph.add("Flatten", "flat")
    graph.add("Linear", "head", in_features=8 * 8 * 8, out_features=5)
    graph.add("Output", "y")
    wire(graph, f"{last} flat head y")
    for number in range(blocks):
        graph.group([f"{kind}{number}" for kind in ("conv", "norm", "relu", "drop")], f"block{number}")
    return graph


def trained(graph: pn.NodeGraph, *args: torch.Tensor) -> torch.nn.Module:
    """Compile, and give normalisation some statistics and weights that are not its first ones."""
    torch.manual_seed(3)
    model = pn.compile(graph)
    with torch.no_grad():
        for _ in range(3):
            model(*args)
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.add_(torch.rand_like(parameter))
    return model
