"""What nodes cost: against the same network measured by `pn.summary`, and against counts by hand."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler import IncrementalAnalysis
from pnne_nb.compiler.shapes.cost import MultiplyAdds, share
from pnne_nb.protocol.messages import NodeCost
from tests.compiler import graphs


def costs_of(graph: pn.NodeGraph) -> dict[str, NodeCost]:
    with IncrementalAnalysis(graph) as analysis:
        return analysis.costs


@pytest.mark.parametrize(
    ("make", "example"), [(graphs.lenet, (1, 1, 28, 28)), (graphs.mlp, (1, 8)), (graphs.nested, (1, 6))]
)
def test_costs_of_one_example_are_those_that_a_run_shows(make: object, example: tuple[int, ...]) -> None:
    assert callable(make)
    graph = make()
    found = costs_of(graph)
    measured = pn.summary(pn.compile(graph), torch.randn(example))
    for row in measured.rows[1:]:
        cost = found.get(row.layer, NodeCost(0, 0, 0, 0))
        assert cost.mult_adds == row.mult_adds, row.layer
        if not any(other.layer.startswith(f"{row.layer}.") for other in measured.rows):
            assert (cost.parameters, cost.memory, cost.activation) == (row.parameters, row.memory, row.activation)
    outermost = [cost for path, cost in found.items() if "." not in path]
    assert sum(cost.parameters for cost in outermost) == measured.parameters
    assert sum(cost.mult_adds for cost in outermost) == measured.mult_adds
    assert sum(cost.memory for cost in outermost) == measured.parameter_memory


def test_a_long_sequence_counts_as_a_whole() -> None:
    graph = pn.NodeGraph("tagger")
    graph.add("Input", "x", shape=("N", 40, 3))
    graph.add("LSTM", "lstm", input_size=3, hidden_size=4, batch_first=True)
    graph.connect("x", "lstm")
    cost = costs_of(graph)["lstm"]
    measured = pn.summary(nn.LSTM(3, 4, batch_first=True), torch.randn(1, 40, 3))
    assert cost.mult_adds == measured.mult_adds == 40 * (3 * 16 + 4 * 16)
    assert cost.activation == measured.activation_memory


def test_shared_weights_count_once_and_their_work_twice() -> None:
    graph = pn.NodeGraph("tied")
    graph.add("Input", "x", shape=("N", 5))
    graph.add("Linear", "first", in_features=5, out_features=5)
    graph.add("Linear", "second", shares="first")
    graph.connect("x", "first", "second")
    found = costs_of(graph)
    assert found["first"] == NodeCost(30, 25, 120, 20)
    assert found["second"] == NodeCost(0, 25, 0, 20)


def test_functions_parameters_and_buffers_cost_too() -> None:
    graph = pn.NodeGraph("by hand")
    graph.add("Input", "x", shape=(7, 5))
    graph.add("Parameter", "weight", shape=(5, 2))
    graph.add("Buffer", "offset", shape=(2,))
    graph.add("matmul", "product")
    graph.add("add", "sum")
    graph.connect("x", "product.input")
    graph.connect("weight", "product.other")
    graph.connect("product", "sum.input")
    graph.connect("offset", "sum.other")
    found = costs_of(graph)
    assert found["weight"] == NodeCost(10, 0, 40, 0)
    assert found["offset"] == NodeCost(0, 0, 8, 0)
    assert found["product"] == NodeCost(0, 7 * 5 * 2, 0, 7 * 2 * 4)
    assert found["sum"] == NodeCost(0, 0, 0, 7 * 2 * 4)


def test_the_example_says_which_sizes_the_costs_are_for() -> None:
    graph = pn.NodeGraph("picture")
    graph.add("Input", "x", shape=("N", 3, "H", "W"))
    graph.add("Conv2d", "conv", in_channels=3, out_channels=2, kernel_size=1)
    graph.connect("x", "conv")
    with IncrementalAnalysis(graph) as analysis:
        delta = analysis.refresh()
        assert delta.example is not None
        assert delta.example["N"] == 1
        cost = delta.costs["conv"]
        assert cost is not None
        assert cost.mult_adds == 3 * 2 * delta.example["H"] * delta.example["W"]
        graph.set("conv", out_channels=4)
        assert analysis.refresh().example is None, "it is as before"
        graph.set("x", shape=(8, 3, 16, 16))
        assert analysis.refresh().example == {}
        assert analysis.costs["conv"].mult_adds == 8 * 3 * 4 * 16 * 16


def test_an_inner_edit_changes_what_the_block_costs() -> None:
    graph = graphs.nested()
    with IncrementalAnalysis(graph) as analysis:
        analysis.refresh()
        before = analysis.costs["layer1"]
        graph.set("layer1.0", bias=False)
        delta = analysis.refresh()
        after = delta.costs["layer1"]
        assert after is not None
        assert after.parameters < before.parameters
        assert after.mult_adds == before.mult_adds


def test_what_does_not_depend_on_the_batch_counts_as_a_whole() -> None:
    assert share((12, 14), (6, 7)) == 2
    assert share((12, 12), (6, 7)) == 12
    assert share((12, 14), None) == 12


def test_another_threads_work_is_not_counted() -> None:
    net = nn.Linear(3, 2)
    with MultiplyAdds() as counter:
        thread = threading.Thread(target=lambda: net(torch.randn(4, 3)))
        thread.start()
        thread.join()
        assert counter.count == 0
        net(torch.randn(4, 3))
        assert counter.count == 4 * 3 * 2
