from __future__ import annotations

from typing import Any

import pytest
import torch

import pnne_nb as pn
from pnne_nb.compiler.passes.report import Report
from tests.compiler import graphs
from tests.compiler.graphs import wire
from tests.compiler.passes.graphs import redundant


def clean(graph: pn.NodeGraph, *, keep_weights: bool = False) -> tuple[pn.NodeGraph, Report]:
    done = pn.transform(graph, [pn.passes.RemoveDeadNodes(keep_weights=keep_weights)])
    (report,) = done.reports
    assert not report.refused
    return done.graph, report


def test_a_dead_branch_goes_with_its_keys() -> None:
    graph, report = clean(redundant())
    assert "unused" not in graph
    assert "end" not in graph
    assert str(report.changes[0]) == "removed unused: state_dict loses unused.weight, unused.bias"
    assert str(report.changes[1]) == "removed end"


def test_weights_can_be_kept() -> None:
    graph, report = clean(redundant(), keep_weights=True)
    assert "unused" in graph
    assert "end" not in graph
    assert report.skipped == {"unused": "its weights must be kept"}


@pytest.mark.parametrize(
    ("type", "properties", "why"),
    [
        ("Dropout", {}, "it draws random numbers, and without it other nodes would draw others"),
        ("rand_like", {}, "it draws random numbers, and without it other nodes would draw others"),
        ("relu_", {}, "it changes tensors in place"),
        ("ReLU", {"inplace": True}, "it changes tensors in place"),
        ("BatchNorm1d", {"num_features": 4}, "it changes tensors in place"),  # its statistics
    ],
)
def test_what_does_more_than_give_a_result_stays(type: str, properties: dict[str, Any], why: str) -> None:
    graph = redundant()
    graph.add(type, "effect", **properties)
    graph.connect("fc.output", "effect.input")
    graph.add("neg", "needed")
    graph.disconnect("fc.output", "one.input")
    wire(graph, "fc needed one")
    after, report = clean(graph)
    assert "effect" in after
    assert report.skipped == {"effect": why}


def test_what_a_kept_node_reads_stays() -> None:
    graph = redundant()
    graph.add("tanh", "before")
    graph.add("Dropout", "effect")
    wire(graph, "x before effect")
    after, _ = clean(graph)
    assert "before" in after


def test_an_owner_of_shared_weights_stays() -> None:
    graph = redundant()
    graph.add("Linear", "tied", shares="unused", in_features=4, out_features=2)
    graph.add("Output", "z")
    wire(graph, "one tied z")
    after, report = clean(graph)
    assert "unused" in after
    assert report.skipped == {"unused": "its weights are used by another node"}


def test_results_of_nested_graphs_that_no_use_needs_go() -> None:
    graph = graphs.nested()
    definition = graph["layer1"].definition
    assert definition is not None
    graph.add("tanh", "layer1.side")
    graph.add("Output", "layer1.extra")
    graph.connect("layer1.0.output", "layer1.side.input")
    graph.connect("layer1.side.output", "layer1.extra.input")
    after, report = clean(graph)
    assert "layer1.extra" not in after
    assert "layer2.side" not in after
    assert [change.nodes for change in report.changes] == [
        ("layer1.extra", "layer2.extra"),
        ("layer1.side", "layer2.side"),
    ]


def test_a_dead_nested_graph_goes_with_its_definition() -> None:
    graph = redundant()
    graph.group(["unused", "end"], "side")
    graph.add("Output", "side.y")
    graph.connect("side.end.output", "side.y.input")
    after, _ = clean(graph)
    assert list(after.graphs) == [""]


def test_inputs_and_training_nodes_stay() -> None:
    graph = redundant()
    graph.add("Input", "spare", shape=("N", 2))
    graph.add("AdamW", "optimizer")
    after, _ = clean(graph)
    assert "spare" in after
    assert "optimizer" in after
    assert torch.equal(*(pn.compile(g, reuse=None)(torch.zeros(1, 8), None) * 0 for g in (graph, after)))
