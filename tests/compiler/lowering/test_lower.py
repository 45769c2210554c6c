"""What the source says of arguments and results: tensors, where that is known."""

from __future__ import annotations

import torch

import pnne_nb as pn
from tests.compiler import graphs


def hands_on() -> pn.NodeGraph:
    """Return a graph with a nested one, used twice in a row, that gives what it is given."""
    graph = pn.NodeGraph("net")
    graph.add("Input", "x")
    graph.add("Identity", "inner")
    graph.add("Output", "y")
    graphs.wire(graph, "x inner y")
    graph.group(["inner"], "first")
    graph.remove("first.inner")
    graph.connect("first.input", "first.output")
    graph.add("Subgraph", "second", definition=graph["first"].definition)
    graph.remove("y")
    graph.add("Output", "y")
    graph.connect("first.output", "second.input")
    graph.connect("second.output", "y.input")
    return graph


def test_what_a_nested_graph_hands_on_is_what_each_use_is_given() -> None:
    graph = hands_on()
    assert "def forward(self, x):" in pn.to_source(graph)
    graph.set("x", shape=("N", 4))
    source = pn.to_source(graph)
    assert "def forward(self, input: torch.Tensor) -> torch.Tensor:" in source
    assert "def forward(self, x: torch.Tensor) -> torch.Tensor:" in source
    x = torch.rand(2, 4)
    assert pn.compile(graph)(x) is x


def test_one_use_that_is_given_anything_leaves_the_argument_open() -> None:
    graph = hands_on()
    graph.set("x", shape=("N", 4))
    graph.add("Input", "anything")
    graph.disconnect("first.output", "second.input")
    graph.connect("anything.output", "second.input")
    source = pn.to_source(graph)
    assert "def forward(self, input):" in source
    assert "def forward(self, x: torch.Tensor, anything):" in source
