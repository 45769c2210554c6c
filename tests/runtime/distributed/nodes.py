"""Node types that the processes of a group know only if they import this module."""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn

from pnne_nb.catalog import register_node
from pnne_nb.graph.document import NodeGraph
from tests.runtime import tasks


@register_node(category="Custom")
class Doubled(nn.Module):
    """Twice its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


@register_node(category="Custom")
class Cramped(nn.Module):
    """Its input; the second process of a group has room for four examples only."""

    def forward(self, x: Tensor) -> Tensor:
        if os.environ.get("RANK") == "1" and x.device.type != "meta" and len(x) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return x * 1


def graph(kind: str = "Doubled") -> NodeGraph:
    """The task's network, and a node of that type at its end."""
    graph = tasks.picture_graph()
    graph.add(kind, name="twice")
    graph.disconnect("fc.output", "y.input")
    graph.connect("fc", "twice")
    graph.connect("twice", "y")
    return graph
