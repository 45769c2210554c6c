"""A node that is left out: what it gives instead, what stays of it, and what is refused."""

from __future__ import annotations

import pytest
import torch

import pnne_nb as pn
from pnne_nb.compiler.pipeline.incremental import IncrementalAnalysis


def net() -> pn.NodeGraph:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="fc1", out_features=8)
    graph.add("ReLU", name="act")
    graph.add("Linear", name="fc2", out_features=4)
    graph.add("Output", name="y")
    graph.connect("x", "fc1", "act", "fc2", "y")
    return graph


def test_a_bypassed_node_gives_its_input_on_and_keeps_its_weights() -> None:
    graph = net()
    whole = pn.compile(graph)
    graph.set("fc1", ablate="bypass")
    without = pn.compile(graph, reuse=whole)
    x = torch.randn(3, 8)
    fc2 = whole.get_submodule("fc2")
    assert list(without.state_dict()) == list(whole.state_dict())
    assert torch.equal(without(x), fc2(torch.relu(x)))
    assert "self.fc1(" not in pn.to_source(graph)
    graph.undo()
    assert torch.equal(pn.compile(graph, reuse=without)(x), whole(x)), "it runs again, with the weights of before"


def test_zeros_take_the_place_of_what_a_node_gives() -> None:
    graph = net()
    whole = pn.compile(graph)
    graph.set("act", ablate="zeros")
    without = pn.compile(graph, reuse=whole)
    fc2 = whole.get_submodule("fc2")
    assert torch.equal(without(torch.randn(3, 8)), fc2(torch.zeros(3, 8)))


def test_several_in_a_row_and_a_block_are_left_out() -> None:
    graph = net()
    graph.group(["fc1", "act"], name="block")
    graph.set("block", ablate="bypass")
    graph.set("fc2", ablate="bypass")
    x = torch.randn(2, 8)
    assert torch.equal(pn.compile(graph)(x), x)
    assert pn.infer_shapes(graph)["fc2.output"].shape == ("N", 8)


def test_the_first_input_is_that_of_the_ports_not_of_the_edges() -> None:
    graph = pn.NodeGraph("sum")
    graph.add("Input", name="a", shape=("N", 2))
    graph.add("Input", name="b", shape=("N", 2))
    graph.add("add", name="total", ablate="bypass")
    graph.add("Output", name="y")
    graph.connect("b.output", "total.other")
    graph.connect("a.output", "total.input")
    graph.connect("total", "y")
    a, b = torch.zeros(1, 2), torch.ones(1, 2)
    assert torch.equal(pn.compile(graph)(a, b), a)


def test_a_shape_that_does_not_fit_is_refused_at_the_node_that_takes_it() -> None:
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="wide", out_features=16, ablate="bypass")
    graph.add("Linear", name="fc", in_features=16, out_features=4)
    graph.add("Output", name="y")
    graph.connect("x", "wide", "fc", "y")
    with pytest.raises(pn.CompileError, match=r"fc.*16") as caught:
        pn.compile(graph)
    assert [diagnostic.node for diagnostic in caught.value.diagnostics] == ["fc"]


def test_what_has_no_single_result_to_give_cannot_be_left_out() -> None:
    graph = pn.NodeGraph("recurrent")
    graph.add("Input", name="x", shape=("N", 5, 8))
    graph.add("LSTM", name="lstm", input_size=8, hidden_size=8, ablate="bypass")
    graph.add("Output", name="y")
    graph.add("Output", name="state")
    graph.connect("x", "lstm")
    graph.connect("lstm.output", "y.input")
    graph.connect("lstm.h_n", "state.input")
    with pytest.raises(pn.CompileError, match=r"lstm.*cannot be left out: its outputs h_n and output are in use"):
        pn.compile(graph)
    graph = pn.NodeGraph("made")
    graph.add("Input", name="x", shape=("N", 2))
    graph.add("ones", name="ones", size=(2,), ablate="zeros")
    graph.add("add", name="total")
    graph.add("Output", name="y")
    graph.connect("x.output", "total.input")
    graph.connect("ones.output", "total.other")
    graph.connect("total", "y")
    with pytest.raises(pn.CompileError, match=r"ones.*cannot be left out: nothing is connected to it"):
        pn.compile(graph)


def test_an_edit_leaves_out_and_brings_back_in_the_live_analysis() -> None:
    graph = net()
    analysis = IncrementalAnalysis(graph)
    try:
        analysis.refresh()
        assert analysis.shapes["fc2.output"].shape == ("N", 4)
        graph.set("fc2", ablate="bypass")
        analysis.refresh()
        assert analysis.shapes["fc2.output"].shape == ("N", 8)
        graph.undo()
        analysis.refresh()
        assert analysis.shapes["fc2.output"].shape == ("N", 4)
    finally:
        analysis.close()
