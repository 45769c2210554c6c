"""A node type that the processes of a group know only if they import this module."""

from __future__ import annotations

from torch import Tensor, nn

from pnne_nb.catalog import register_node
from pnne_nb.graph.document import NodeGraph
from tests.runtime import tasks


@register_node(category="Custom")
class Doubled(nn.Module):
    """Twice its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2


def graph() -> NodeGraph:
    """The task's network, and a node of that type at its end."""
    graph = tasks.picture_graph()
    graph.add("Doubled", name="twice")
    graph.disconnect("fc.output", "y.input")
    graph.connect("fc", "twice")
    graph.connect("twice", "y")
    return graph
