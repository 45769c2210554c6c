from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.passes.report import Report
from tests.compiler.graphs import wire


def twice(type: str, properties: dict[str, Any] | None = None, other: dict[str, Any] | None = None) -> pn.NodeGraph:
    """Two nodes of one type that read the same."""
    graph = pn.NodeGraph("twice")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("neg", "start")
    graph.add(type, "a", **(properties or {}))
    graph.add(type, "b", **(properties or {} if other is None else other))
    graph.add("sub", "out")
    graph.add("Output", "y")
    return wire(graph, "x start", "start a.input", "start b.input", "a.output out.input", "b.output out.other", "out y")


def merge(graph: pn.NodeGraph) -> Report:
    done = pn.transform(graph, [pn.passes.MergeEqualNodes()])
    (report,) = done.reports
    assert not report.refused
    return report


@pytest.mark.parametrize(
    ("type", "properties"),
    [("relu", {}), ("ReLU", {}), ("softmax", {"dim": -1}), ("view", {"size": (-1, 4)}), ("Flatten", {}), ("mul", {"other": 2})],
)  # fmt: skip
def test_equal_nodes_are_merged(type: str, properties: dict[str, Any]) -> None:
    report = merge(twice(type, properties))
    assert [str(change) for change in report.changes] == ["merged b: a gives the same"]


@pytest.mark.parametrize(
    ("type", "properties", "other"),
    [
        ("softmax", {"dim": 0}, {"dim": 1}),
        ("mul", {"other": 2}, {"other": 2.0}),  # they promote integers differently
        ("Dropout", {}, None),
        ("dropout", {}, None),
        ("rand_like", {}, None),
        ("Linear", {"in_features": 4, "out_features": 4}, None),  # weights of their own
        ("BatchNorm1d", {"num_features": 4}, None),
        ("relu_", {}, None),
        ("ReLU", {"inplace": True}, None),
        ("empty_like", {}, None),
    ],
)
def test_what_only_looks_equal_is_not_merged(
    type: str, properties: dict[str, Any], other: dict[str, Any] | None
) -> None:
    assert not merge(twice(type, properties, other)).changes


def test_shared_weights_are_merged_without_losing_their_owner() -> None:
    graph = twice("Linear", {"in_features": 4, "out_features": 4}, {"shares": "a", "in_features": 4, "out_features": 4})
    assert [change.nodes for change in merge(graph).changes] == [("b",)]


def test_memory_that_is_changed_later_is_not_shared() -> None:
    graph = twice("relu")
    graph.add("add_", "bump", other=1)
    graph.disconnect("a.output", "out.input")
    wire(graph, "a bump.input", "bump out.input")
    report = merge(graph)
    assert not report.changes
    assert report.skipped == {"b": "it looks like a, but draws random numbers or works in place"}


def test_results_stay_apart() -> None:
    graph = twice("relu")
    graph.add("Output", "one")
    graph.add("Output", "other")
    graph.connect("a.output", "one.input")
    graph.connect("b.output", "other.input")
    assert merge(graph).skipped == {"b": "it computes the same as a, but both are results that a caller may change"}


def test_whole_chains_are_merged() -> None:
    graph = twice("relu")
    graph.add("tanh", "c")
    graph.add("tanh", "d")
    graph.disconnect("a.output", "out.input")
    graph.disconnect("b.output", "out.other")
    wire(graph, "a c out.input", "b d out.other")
    assert [change.nodes for change in merge(graph).changes] == [("b",), ("d",)]


def test_equal_constants_count_as_one() -> None:
    graph = twice("mul")
    for name, target in (("k", "a"), ("l", "b")):
        graph.add("Constant", name, value=3)
        graph.connect(f"{name}.output", f"{target}.other")
    assert len(merge(graph).changes) == 1


def test_registered_nodes_are_not_merged() -> None:
    class Counted(nn.Module):
        calls = 0

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            Counted.calls += 1
            return input * Counted.calls

    pn.register_node(category="Custom", replace=True)(Counted)
    assert not pn.transform(twice("Counted"), [pn.passes.MergeEqualNodes()]).reports[0].changes
