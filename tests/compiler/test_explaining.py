from __future__ import annotations

import pytest
from torch import nn

import pnne_nb as pn
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


def test_other_modules_have_no_nodes() -> None:
    with pytest.raises(pn.CompileError, match="Linear was not compiled from a graph"):
        pn.explain(nn.Linear(1, 1))
