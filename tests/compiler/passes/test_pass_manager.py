from __future__ import annotations

from typing import Any

import pytest
import torch

import pnne_nb as pn
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite
from pnne_nb.compiler.passes.report import Change, Gain
from tests.compiler import graphs
from tests.compiler.graphs import wire
from tests.compiler.passes.graphs import redundant


class Negate(Pass):
    """Breaks what it promises."""

    def rewrite(self, subject: PassSubject) -> Rewrite:
        done = Rewrite()
        subject.graph.add("neg", "wrong")
        subject.graph.disconnect("moved.output", "y.input")
        wire(subject.graph, "moved wrong y")
        done.changes.append(Change("negated", ("moved",)))
        return done


class Idle(Pass):
    def rewrite(self, subject: PassSubject) -> Rewrite:
        return Rewrite()


def cleaning() -> list[Pass]:
    return [pn.passes.RemoveDeadNodes(), pn.passes.FoldConstants(), pn.passes.MergeEqualNodes()]


def test_passes_follow_each_other_and_tell_what_they_did() -> None:
    graph = redundant()
    before = graph.to_json()
    done = pn.transform(graph, cleaning())
    assert graph.to_json() == before
    assert list(done.graph.nodes) == ["x", "fc", "one", "sum", "even", "moved", "y"]
    assert [report.headline for report in done.reports] == ["2 changes", "1 change", "1 change"]
    assert repr(done.reports[2]).startswith("Report(")
    assert str(done.reports[2]).splitlines() == [
        "MergeEqualNodes: 1 change",
        "  merged two: one gives the same",
        "  nodes 8 → 7, 1.14× less (derived)",
        f"  {done.reports[2].proof}",
    ]
    assert str(done.reports[0].proof) == (
        "proved equal on the example inputs: outputs bit for bit, gradients and buffers bit for bit, "
        "in train and eval mode"
    )
    assert "<b>RemoveDeadNodes</b>: 2 changes" in done._repr_html_()
    source = pn.to_source(done.graph)
    assert "unused" not in source
    assert "torch.arange" not in source


def test_the_result_is_a_document_that_can_be_edited_and_compiled() -> None:
    done = pn.transform(redundant(), cleaning())
    done.graph.set("fc", bias=False)
    model = pn.compile(done.graph, reuse=done.model)
    assert torch.equal(model.get_parameter("fc.weight"), done.model.get_parameter("fc.weight"))


def test_a_pass_that_does_not_keep_its_promise_is_refused() -> None:
    graph = redundant()
    done = pn.transform(graph, [Negate(), pn.passes.FoldConstants()])
    refused, after = done.reports
    assert refused.refused == "output 0 differs by 2.0e+00 of the largest value in train mode"
    assert refused.changes == ()
    assert "wrong" not in done.graph
    assert after.headline == "1 change"


def test_a_pass_without_work_changes_nothing() -> None:
    done = pn.transform(redundant(), [Idle()])
    assert str(done) == "Idle: nothing to do"
    assert done.graph == redundant()


@pytest.mark.parametrize(
    ("gain", "text"),
    [
        (Gain("peak memory", 14.9e6, 2.4e6, "B"), "peak memory 14.9 MB → 2.4 MB, 6.21× less (derived)"),
        (Gain("forward pass", 1e-3, 1e-3, "s", measured=True), "forward pass 1 ms → 1 ms, gains nothing (measured)"),
        (Gain("forward pass", 1e-3, 2e-3, "s", measured=True), "forward pass 1 ms → 2 ms, gains nothing (measured)"),
        (Gain("numbers", 11_191_262, 11_176_847), "numbers 11,191,262 → 11,176,847, gains nothing (derived)"),
        (Gain("nodes", 12, 9), "nodes 12 → 9, 1.33× less (derived)"),
        (Gain("time", 0, 0, "s"), "time 0 s → 0 s, gains nothing (derived)"),
    ],
)
def test_gains_in_words(gain: Gain, text: str) -> None:
    assert str(gain) == text


def test_an_unfinished_graph_is_refused_as_by_compile() -> None:
    graph = redundant()
    graph.disconnect("fc", "one")
    before = graph.to_json()
    with pytest.raises(pn.CompileError, match=r"one.input: Input is not connected"):
        pn.transform(graph, cleaning())
    assert graph.to_json() == before


def test_a_loop_in_a_file_is_refused() -> None:
    text = redundant().to_json().replace('"x.output"', '"sum.output"')
    with pytest.raises(pn.GraphFileError, match="loop"):
        pn.NodeGraph.from_json(text)


def test_examples_need_a_shape() -> None:
    graph = redundant()
    graph.reset("x", "shape")
    with pytest.raises(pn.CompileError, match=r"x has no shape to make one from: pass args=\(\.\.\.\)"):
        pn.transform(graph, cleaning())
    assert len(pn.transform(graph, cleaning(), args=torch.randn(2, 8)).reports) == 3


def test_examples_fit_named_sizes() -> None:
    graph = pn.NodeGraph("sizes")
    graph.add("Input", "x", shape=("N", 3, "H", "W"))
    graph.add("Conv2d", "conv", in_channels=3, out_channels=2, kernel_size=11)
    graph.add("Output", "y")
    wire(graph, "x conv y")
    assert pn.transform(graph, [Idle()]).reports[0].headline == "nothing to do"
    graph.set("conv", in_channels=4)
    with pytest.raises(pn.CompileError, match="in_channels is 4"):
        pn.transform(graph, [Idle()])


def test_weights_come_from_the_model_that_is_given() -> None:
    graph = redundant()
    model = pn.compile(graph)
    done = pn.transform(graph, cleaning(), reuse=model)
    x = torch.randn(5, 8)
    assert torch.equal(done.model(x), model(x))


def test_only_passes_are_taken() -> None:
    with pytest.raises(pn.ArgumentError, match=r"A pass is an object such as pn.passes.RemoveDeadNodes\(\), not"):
        pn.TorchCompiler(passes=[pn.passes.RemoveDeadNodes])  # type: ignore[list-item]  # that is the point


def test_opaque_modules_are_kept() -> None:
    graph = pn.NodeGraph("opaque")
    graph.add("Input", "x", shape=("N", 4))
    graph.add("Module", "body", target="somewhere.Body")
    graph.add("relu", "one")
    graph.add("relu", "two")
    graph.add("add", "sum")
    graph.add("Output", "y")
    wire(graph, "x body one sum.input", "body two sum.other", "sum y")
    source = torch.nn.Module()
    source.body = torch.nn.Linear(4, 4)
    done = pn.transform(graph, cleaning(), reuse=source)
    assert "two" not in done.graph
    assert torch.equal(done.model.get_parameter("body.weight"), source.get_parameter("body.weight"))


def test_nested_graphs_are_cleaned_in_every_use() -> None:
    graph = graphs.nested()
    graph.add("relu", "layer1.dead")
    graph.connect("layer1.0.output", "layer1.dead.input")
    done = pn.transform(graph, cleaning())
    assert str(done.reports[0].changes[0]) == "removed layer1.dead, layer2.dead"
    assert "layer2.dead" not in done.graph


PN: Any = pn  # what is given is of the wrong type: that is the point


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: PN.passes.CheckpointActivations(budget=-1),
            "budget must be a whole number of bytes, at least 1, not -1",
        ),
        (lambda: PN.passes.CheckpointActivations(budget=True), "budget must be a whole number of bytes"),
        (lambda: PN.passes.CheckpointActivations(budget="1GB"), "budget must be a whole number of bytes"),
        (lambda: PN.passes.CheckpointActivations([1]), "nodes must be a list of paths of nodes, not 1"),
        (lambda: PN.passes.FoldConstants(-3), "limit must be a number of elements, not -3"),
        (lambda: PN.passes.FoldConstants("x"), "limit must be a number of elements, not 'x'"),
        (lambda: PN.passes.PlaceNodes({1: "cpu"}), "devices must be devices by the path of a node, not 1"),
        (lambda: PN.passes.RemoveDeadNodes(keep_weights=3), "keep_weights must be True or False, not 3"),
        (lambda: PN.TorchCompiler().to_source(3), "graph must be a NodeGraph, not 3"),
        (lambda: PN.to_source(None), "graph must be a NodeGraph, not None"),
    ],
)
def test_arguments_of_another_kind_are_refused(make: Any, said: str) -> None:
    with pytest.raises(pn.ArgumentError, match=said):
        make()
