"""What an edge would do, before it is drawn: as if it were, and nothing remembered."""

from __future__ import annotations

import pytest

import pnne_nb as pn
from pnne_nb.compiler import IncrementalAnalysis
from pnne_nb.protocol.messages import Derived, TensorShape
from tests.compiler import graphs


def loose() -> pn.NodeGraph:
    """A Linear that fits, one that does not, and an Output, all unconnected."""
    graph = pn.NodeGraph("loose")
    graph.add("Input", "x", shape=("N", 8))
    graph.add("Linear", "fits", in_features="auto", out_features=3)
    graph.add("Linear", "wrong", in_features=5, out_features=3)
    graph.add("Output", "y")
    return graph


def test_the_shape_that_comes_of_it_is_told_and_nothing_else_changes() -> None:
    graph = loose()
    with IncrementalAnalysis(graph) as analysis:
        analysis.refresh()
        assert analysis.preview("x.output", "fits.input").shape == TensorShape(("N", 3), "float32")
        assert analysis.preview("x.output", "y.input").shape == TensorShape(("N", 8), "float32")
        assert analysis.refresh() == Derived()
        graph.connect("x", "fits")
        assert analysis.refresh().shapes["fits.output"] == TensorShape(("N", 3), "float32")


def test_what_would_be_wrong_comes_with_its_repair() -> None:
    with IncrementalAnalysis(loose()) as analysis:
        found = analysis.preview("x.output", "wrong.input")
        assert found.shape is None
        [problem] = found.diagnostics
        assert problem.node == "wrong"
        assert problem.fix is not None
        assert problem.fix.label == "Set in_features to 8"


def test_a_block_is_looked_through_and_its_inside_looked_at() -> None:
    graph = graphs.nested()
    [target] = [edge.target for edge in graph.edges if edge.source == "x.output"]
    graph.disconnect("x.output", target)
    with IncrementalAnalysis(graph) as analysis:
        assert analysis.preview("x.output", target).shape == TensorShape(("N", 6), "float32")
        inside = next(edge for edge in graph.graphs["layer1"].edges if edge.target.startswith("0."))
        assert analysis.preview(f"layer2.{inside.source}", "layer2.0.input").shape is None, "nothing comes in"
        graph.set("x", shape=("N", 5))
        found = analysis.preview("x.output", target)
        assert [problem.code for problem in found.diagnostics] == ["shape-mismatch"]


@pytest.mark.parametrize(
    ("source", "target"), [("nothing.output", "fits.input"), ("x.output", "nothing.input"), ("x", "y"), ("", "")]
)
def test_ports_that_do_not_exist_have_no_consequence(source: str, target: str) -> None:
    with IncrementalAnalysis(loose()) as analysis:
        found = analysis.preview(source, target)
        assert found.shape is None
        assert found.diagnostics == ()
