"""Graphs that the tests of this folder save."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

import pnne_nb as pn


def chain(graph: pn.NodeGraph, *nodes: tuple[str, str, dict[str, Any]]) -> pn.NodeGraph:
    """Return the graph with these nodes added, each fed by the one before."""
    for type, name, properties in nodes:
        graph.add(type, name=name, **properties)
    for (_, source, _), (_, target, _) in pairwise(nodes):
        graph.connect(source, target)
    return graph


def small(name: str = "small") -> pn.NodeGraph:
    """Return a graph that is saved in little time."""
    return chain(
        pn.NodeGraph(name),
        ("Input", "x", {"shape": ("N", 3)}),
        ("Linear", "fc", {"in_features": 3, "out_features": 2}),
        ("Output", "y", {}),
    )


def pictures() -> pn.NodeGraph:
    """Return a graph with buffers, modes, and a nested graph."""
    graph = chain(
        pn.NodeGraph("pictures"),
        ("Input", "x", {"shape": ("N", 1, 8, 8)}),
        ("Conv2d", "conv", {"in_channels": 1, "out_channels": 4, "kernel_size": 3}),
        ("BatchNorm2d", "norm", {"num_features": 4}),
        ("ReLU", "relu", {}),
        ("Flatten", "flat", {}),
        ("Dropout", "drop", {}),
        ("Linear", "fc", {"in_features": "auto", "out_features": 3}),
        ("Output", "y", {}),
    )
    graph.group(["conv", "norm", "relu"], name="stem")
    return graph


def tied() -> pn.NodeGraph:
    """Return a graph of two layers with one weight."""
    return chain(
        pn.NodeGraph("tied"),
        ("Input", "x", {"shape": ("N", 3)}),
        ("Linear", "one", {"in_features": 3, "out_features": 3}),
        ("Linear", "two", {"in_features": 3, "out_features": 3, "shares": "one"}),
        ("Output", "y", {}),
    )


def noisy() -> pn.NodeGraph:
    """Return a graph that draws random numbers in eval mode too."""
    return chain(
        pn.NodeGraph("noisy"),
        ("Input", "x", {"shape": ("N", 3)}),
        ("Linear", "fc", {"in_features": 3, "out_features": 3}),
        ("rand_like", "noise", {}),
        ("Output", "y", {}),
    )


def shape(graph: pn.NodeGraph) -> tuple[int, ...]:
    """Return the sizes of one example."""
    sizes: Any = graph["x"].properties["shape"]
    return tuple(sizes[1:])


def trained(graph: pn.NodeGraph) -> Any:
    """Return a model whose buffers are not those of a new one."""
    model = pn.compile(graph)
    for _ in range(2):
        model(torch.randn(6, *shape(graph)))
    return model
