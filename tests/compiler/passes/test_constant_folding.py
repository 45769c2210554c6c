from __future__ import annotations

import pytest
import torch

import pnne_nb as pn
from pnne_nb.compiler.passes.report import Report
from tests.compiler.graphs import wire
from tests.compiler.passes.graphs import redundant


def fold(graph: pn.NodeGraph, limit: int = 1024) -> tuple[pn.NodeGraph, Report]:
    done = pn.transform(graph, [pn.passes.FoldConstants(limit)])
    (report,) = done.reports
    assert not report.refused
    return done.graph, report


def test_a_computed_tensor_becomes_a_buffer_outside_of_state_dict() -> None:
    graph, report = fold(redundant())
    assert [str(change) for change in report.changes] == ["folded even: it gives [4] int64"]
    assert graph["even"].type == "Buffer"
    assert graph["even"].properties["values"] == (0, 2, 4, 6)
    assert "count" not in graph
    assert list(pn.compile(graph).state_dict()) == list(pn.compile(redundant()).state_dict())


def test_python_values_become_constants() -> None:
    graph = pn.NodeGraph("numbers")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Constant", "two", value=2)
    graph.add("Constant", "three", value=3)
    graph.add("floordiv" if "floordiv" in pn.catalog else "floor_divide", "quotient")
    graph.add("mul", "scaled")
    graph.add("Output", "y")
    wire(graph, "three quotient.input", "two quotient.other", "x scaled.input", "quotient scaled.other", "scaled y")
    after, report = fold(graph)
    assert len(report.changes) == 1
    assert set(after.nodes) == {"x", "quotient", "scaled", "y"}
    x = torch.randn(2, 4)
    assert torch.equal(pn.compile(after)(x), pn.compile(graph)(x))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("float32", 0.1), ("float32", float("-inf")), ("float32", float("nan")), ("float64", 0.1), ("bfloat16", 1e30),
     ("bool", True), ("int8", -3), ("complex64", 2.5)],
)  # fmt: skip
def test_values_survive_exactly(dtype: str, value: float) -> None:
    graph = pn.NodeGraph("exact")
    graph.add("Input", "x", shape=(2, 4), dtype="complex64")
    graph.add("full", "made", size=(2, 4), fill_value=value, dtype=dtype)
    graph.add("clone", "copied")
    graph.add("mul", "out")
    graph.add("Output", "y")
    wire(graph, "made copied", "x out.input", "copied out.other", "out y")
    after, report = fold(graph)
    assert [change.nodes for change in report.changes] == [("copied",)]
    held = pn.compile(after).get_buffer("copied")
    expected = torch.full((2, 4), value, dtype=getattr(torch, dtype))
    assert held.dtype == expected.dtype
    assert torch.equal(held, expected) or expected.isnan().all()


@pytest.mark.parametrize("type", ["rand", "empty"])
def test_what_is_not_the_same_every_time_is_not_folded(type: str) -> None:
    graph = redundant()
    graph.remove("count")
    graph.add(type, "count", size=(4,))
    graph.connect("count.output", "even.input")
    if type == "empty":
        graph.disconnect("even.output", "moved.other")
        graph.set("moved", other=1)
    after, report = fold(graph)
    assert not report.changes
    assert after == graph


def test_a_tensor_of_another_type_than_the_layers_have_is_folded() -> None:
    graph = pn.NodeGraph("types")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Linear", "layer", in_features=4, out_features=4)
    graph.add("full", "twos", size=(4,), fill_value=2, dtype="bfloat16")
    graph.add("mul", "scaled")
    graph.add("Output", "y")
    wire(graph, "x layer scaled.input", "twos scaled.other", "scaled y")
    after, report = fold(graph)
    assert [str(change) for change in report.changes] == ["folded twos: it gives [4] bfloat16"]
    assert after["twos"].properties["dtype"] == "bfloat16"


def test_what_is_changed_in_place_is_not_folded() -> None:
    graph = redundant()
    graph.add("add_", "bump", other=1)
    graph.disconnect("even.output", "moved.other")
    wire(graph, "even bump moved.other")
    assert fold(graph)[0]["even"].type == "mul"


def test_what_differs_between_training_and_evaluation_is_not_folded() -> None:
    graph = pn.NodeGraph("modes")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("ones", "one", size=(4,))
    graph.add("zeros", "zero", size=(4,))
    graph.add("choose", "chosen")
    graph.add("add", "sum")
    graph.add("Output", "y")
    wire(graph, "one chosen.train", "zero chosen.eval", "x sum.input", "chosen sum.other", "sum y")
    after, _ = fold(graph)
    assert after["chosen"].type == "choose"
    model = pn.compile(after)
    assert model(torch.zeros(1, 4)).sum() == 4
    assert model.eval()(torch.zeros(1, 4)).sum() == 0


def test_parameters_and_buffers_are_no_constants() -> None:
    graph = redundant()
    graph.remove("count")
    graph.add("Buffer", "count", shape=(4,), init="arange")
    graph.connect("count.output", "even.input")
    assert not fold(graph)[1].changes


def test_large_tensors_and_results_are_left() -> None:
    assert fold(redundant(), limit=3)[1].skipped == {
        "even": "it has 4 elements, and the limit is 3",
        "count": "it has 4 elements, and the limit is 3",
    }
    graph = redundant()
    graph.add("Output", "z")
    graph.connect("even.output", "z.input")
    after, report = fold(graph)
    assert report.skipped == {"even": "it is itself a result, which a caller may change"}
    assert after["count"].type == "Buffer"
