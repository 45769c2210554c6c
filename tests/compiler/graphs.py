"""Documents that the compiler's tests share, each with the module that a person would write for it."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn

import pnne_nb as pn


def wire(graph: pn.NodeGraph, *chains: str) -> pn.NodeGraph:
    """Connect each chain of names or ports, separated by spaces."""
    for chain in chains:
        ends = chain.split()
        for source, target in pairwise(ends):
            graph.connect(source, target)
    return graph


def mlp() -> pn.NodeGraph:
    graph = pn.NodeGraph("mlp")
    graph.add("Input", "x", shape=("N", 8))
    graph.add("Linear", "fc1", in_features=8, out_features=16)
    graph.add("Tanh", "act")
    graph.add("Linear", "fc2", in_features=16, out_features=4, bias=False)
    graph.add("Output", "y")
    return wire(graph, "x fc1 act fc2 y")


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.act = nn.Tanh()
        self.fc2 = nn.Linear(16, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.fc2(self.act(self.fc1(x)))
        return out


def lenet() -> pn.NodeGraph:
    graph = pn.NodeGraph("LeNet")
    graph.add("Input", "x", shape=("N", 1, 28, 28))
    graph.add("Conv2d", "conv1", in_channels=1, out_channels=6, kernel_size=5)
    graph.add("ReLU", "relu1")
    graph.add("MaxPool2d", "pool1", kernel_size=2)
    graph.add("Conv2d", "conv2", in_channels="auto", out_channels=16, kernel_size=5)
    graph.add("relu", "relu2")
    graph.add("MaxPool2d", "pool2", kernel_size=2)
    graph.add("flatten", "flat", start_dim=1)
    graph.add("Linear", "fc", in_features="auto", out_features=10)
    graph.add("Output", "y")
    return wire(graph, "x conv1 relu1 pool1 conv2 relu2 pool2 flat fc y")


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.relu1 = nn.ReLU()
        self.pool1 = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.pool2 = nn.MaxPool2d(2)
        self.fc = nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool1(self.relu1(self.conv1(x)))
        x = self.pool2(F.relu(self.conv2(x)))
        out: torch.Tensor = self.fc(torch.flatten(x, 1))
        return out


def residual() -> pn.NodeGraph:
    graph = pn.NodeGraph("residual")
    graph.add("Input", "x", shape=("N", 3, 8, 8))
    graph.add("Conv2d", "stem", in_channels=3, out_channels=4, kernel_size=3, padding=1)
    graph.add("Conv2d", "conv1", in_channels=4, out_channels=4, kernel_size=3, padding=1, bias=False)
    graph.add("BatchNorm2d", "norm1", num_features=4)
    graph.add("relu", "relu1")
    graph.add("Dropout", "drop", p=0.25)
    graph.add("add", "sum")
    graph.add("AdaptiveAvgPool2d", "pool", output_size=1)
    graph.add("Flatten", "flat")
    graph.add("Output", "y")
    return wire(graph, "x stem conv1 norm1 relu1 drop sum.input", "stem sum.other", "sum pool flat y")


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.conv1 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.25)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        x = self.drop(F.relu(self.norm1(self.conv1(x)))) + x
        out: torch.Tensor = self.pool(x)
        return out.flatten(1)


def branches() -> pn.NodeGraph:
    """Two inputs, two outputs, a joint, a shared layer."""
    graph = pn.NodeGraph("two ways")
    graph.add("Input", "left", shape=("N", 4))
    graph.add("Input", "right", shape=("N", 4))
    graph.add("Linear", "shared", in_features=4, out_features=3)
    graph.add("Linear", "again", shares="shared", out_features=3)
    graph.add("cat", "joint", dim=1)
    graph.add("mul", "product")
    graph.add("Output", "both")
    graph.add("Output", "prod")
    return wire(
        graph,
        "left shared joint.tensors_0",
        "right again joint.tensors_1",
        "shared product.input",
        "again product.other",
        "joint both",
        "product prod",
    )


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(4, 3)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        one, other = self.shared(left), self.shared(right)
        return torch.cat([one, other], dim=1), one * other


def nested() -> pn.NodeGraph:
    """A definition that is used twice, with numeric names inside, and one inside another."""
    graph = pn.NodeGraph("nested")
    graph.add("Input", "x", shape=("N", 6))
    graph.add("Linear", "fc", in_features=6, out_features=6)
    graph.add("ReLU", "act")
    graph.add("Output", "y")
    wire(graph, "x fc act y")
    inner = graph.group(["fc", "act"], "layer1")
    graph.rename("layer1.fc", "0")
    graph.rename("layer1.act", "1")
    graph.add("Subgraph", "layer2", definition=inner.definition)
    outputs, inputs = graph.graphs[inner.definition or ""].outputs, graph.graphs[inner.definition or ""].inputs
    graph.disconnect("layer1", "y")
    graph.connect(f"layer1.{outputs[0]}", f"layer2.{inputs[0]}")
    graph.connect(f"layer2.{outputs[0]}", "y.input")
    return graph


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.add_module("0", nn.Linear(6, 6))
        self.add_module("1", nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for module in self.children():
            x = module(x)
        return x


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer1 = _Layer()
        self.layer2 = _Layer()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer2(self.layer1(x))
        return out


def recurrent() -> pn.NodeGraph:
    graph = pn.NodeGraph("recurrent")
    graph.add("Input", "tokens", shape=("N", "T"), dtype="int64")
    graph.add("Embedding", "embed", num_embeddings=11, embedding_dim=5)
    graph.add("LSTM", "lstm", input_size=5, hidden_size=7, batch_first=True)
    graph.add("select", "last", dim=1, index=-1)
    graph.add("Linear", "head", in_features=7, out_features=2)
    graph.add("Output", "y")
    return wire(graph, "tokens embed lstm.input", "lstm.output last head y")


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 5)
        self.lstm = nn.LSTM(5, 7, batch_first=True)
        self.head = nn.Linear(7, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x, _ = self.lstm(self.embed(tokens))
        out: torch.Tensor = self.head(x[:, -1])
        return out


def weights() -> pn.NodeGraph:
    graph = pn.NodeGraph("weights")
    graph.add("Input", "x", shape=("N", 3))
    graph.add("Parameter", "scale", shape=(3,), init="ones")
    graph.add("Buffer", "offset", shape=(3,), init="arange")
    graph.add("Buffer", "hidden", shape=(3,), persistent=False)
    graph.add("Constant", "factor", value=0.5)
    graph.add("mul", "scaled")
    graph.add("add", "moved")
    graph.add("add", "same")
    graph.add("mul", "halved")
    graph.add("Output", "y")
    return wire(
        graph,
        "x scaled.input",
        "scale scaled.other",
        "scaled moved.input",
        "offset moved.other",
        "moved same.input",
        "hidden same.other",
        "same halved.input",
        "factor halved.other",
        "halved y",
    )


class Weights(nn.Module):
    offset: torch.Tensor
    hidden: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("offset", torch.arange(3, dtype=torch.float32))
        self.register_buffer("hidden", torch.zeros(3), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.scale + self.offset + self.hidden) * 0.5
