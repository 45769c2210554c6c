from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import nn

import pnne_nb as pn
from pnne_nb.diagnosis.finding import KINDS, false_alarms
from tests.compiler import graphs


def test_each_line_names_its_nodes() -> None:
    lines = pn.explain(pn.compile(graphs.nested()))
    by_text = {line.text.strip(): line.nodes for line in lines if line.nodes}
    assert by_text == {
        'self.add_module("0", nn.Linear(6, 6))': ("layer1.0", "layer2.0"),
        'self.add_module("1", nn.ReLU())': ("layer1.1", "layer2.1"),
        'x = getattr(self, "0")(input)': ("layer1.0", "layer2.0"),
        'x = getattr(self, "1")(x)': ("layer1.1", "layer2.1"),
        "self.layer1 = Layer1()": ("layer1",),
        "self.layer2 = Layer1()": ("layer2",),
        "x = self.layer1(x)": ("layer1",),
        "x = self.layer2(x)": ("layer2",),
    }


def test_lines_are_printed_with_their_nodes() -> None:
    texts = [str(line) for line in pn.explain(pn.compile(graphs.mlp()))]
    assert "  13          x = self.fc1(x)    <- fc1" in texts
    assert "   1  import torch" in texts


def test_a_cell_shows_the_source_with_its_nodes_beside_it() -> None:
    explained = pn.explain(pn.compile(graphs.mlp()))
    assert repr(explained).splitlines() == [str(line) for line in explained]
    shown = explained._repr_html_()
    assert "self, x: torch.Tensor) -&gt; torch.Tensor:" in shown
    assert "x = self.fc1(x)<span style='opacity:.6'>    ← fc1</span>\n" in shown


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nn.Linear(1, 1), "Linear was not compiled from a graph, so no line of it belongs to a node"),
        (graphs.mlp, r"NodeGraph is no model that was compiled .*\. pn\.compile\(graph\) makes one"),
        (
            lambda: pn.compile(graphs.nested()).layer1,
            r"Layer1 is a part of a compiled model, .*\. Give the whole model",
        ),
        (
            lambda: nn.Sequential(pn.compile(graphs.mlp())),
            r"Sequential only holds a model that was compiled .* Give its 0\.",
        ),
    ],
)
def test_what_has_no_nodes_is_told_what_to_give(make: Callable[[], nn.Module], said: str) -> None:
    with pytest.raises(pn.CompileError, match=said):
        pn.explain(make())


def test_a_code_a_diagnostic_a_finding_and_an_error_are_explained() -> None:
    with pytest.raises(pn.ShapeError) as caught:
        pn.compile(pn.sequential(("Linear", 4, 8), ("Linear", 9, 3), input=("N", 4)))
    assert caught.value.__notes__ == ['pn.explain("shape-mismatch") says more.']
    assert pn.TrainingError("It cannot go on.", caught.value.diagnostics).__notes__ == caught.value.__notes__
    said = pn.explain("shape-mismatch")
    assert said == pn.explain(caught.value) == pn.explain(caught.value.diagnostics[0])
    assert repr(said).startswith("shape-mismatch\n  Why: A size of the node")
    with pytest.raises(
        pn.ArgumentError, match=r"No message has the code 'shape-mismach'. Did you mean 'shape-mismatch'"
    ):
        pn.explain("shape-mismach")
    finding = pn.explain("dead-relu")
    assert finding == pn.explain(pn.Finding("dead-relu", "relu1", "It is 0.", "Look."))
    assert "\n  Seen in: The share of zeros" in finding
    assert finding.endswith(f"learning rate.\n  {false_alarms('dead-relu')}")
    assert [pn.explain(kind).count("\n  ") for kind in KINDS if kind != "not-finite"] == [4] * (len(KINDS) - 1)
    assert pn.explain("not-finite").count("not-finite\n  Why: ") == 2, "a message and a finding have this code"
    with pytest.raises(pn.ArgumentError, match="This error has no code"):
        pn.explain(pn.GraphError("no"))
