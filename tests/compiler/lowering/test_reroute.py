"""A point that an edge leads through computes nothing, and leaves no trace in the source or the model."""

from __future__ import annotations

import pytest
import torch

import pnne_nb as pn
from pnne_nb.errors import CompileError


def rerouted() -> pn.NodeGraph:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Reroute", name="a")
    graph.add("Reroute", name="b")
    graph.add("Linear", name="fc", out_features=4)
    graph.add("Output", name="y")
    graph.connect("x", "a", "b", "fc", "y")
    return graph


def plain() -> pn.NodeGraph:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="fc", out_features=4)
    graph.add("Output", name="y")
    graph.connect("x", "fc", "y")
    return graph


def test_it_leaves_no_line_and_no_module() -> None:
    graph = rerouted()
    assert graph.diagnostics() == []
    assert pn.to_source(graph) == pn.to_source(plain())
    assert pn.infer_shapes(graph)["b.output"] == pn.infer_shapes(graph)["x.output"]
    model = pn.compile(graph)
    other = pn.compile(plain(), reuse=model)
    x = torch.randn(3, 8)
    assert torch.equal(model(x), other(x))
    assert list(model.state_dict()) == list(other.state_dict())
    assert pn.NodeGraph.from_json(graph.to_json()) == graph


def test_without_an_edge_it_says_so() -> None:
    graph = rerouted()
    graph.disconnect("x.output", "a.input")
    assert [found.node for found in graph.diagnostics() if found.severity == "error"] == ["a"]
    with pytest.raises(CompileError, match=r"a.input: Input is not connected"):
        pn.compile(graph)


def test_a_property_that_a_block_shows_changes_no_proof_and_no_source() -> None:
    graph = pn.from_module(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()), args=(torch.ones(1, 8),))
    source = pn.to_source(graph)
    name = next(name for name, node in graph.nodes.items() if node.type == "Linear")
    graph.set(name, promoted=("out_features",))
    origin = graph[name].origin
    assert origin is not None
    assert origin.proof == "equal"
    assert pn.to_source(graph) == source
