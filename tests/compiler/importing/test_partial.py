"""A module that fails is drawn as far as its code can be followed, and an interrupt leaves nothing behind."""

from __future__ import annotations

import io
import re
import sys

import pytest
import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.process import progress_line

X = torch.randn(2, 4)


class Unfit(nn.Module):
    """Has a layer that does not fit the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(9, 2)
        self.last = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(self.second(self.first(x).relu()))
        return found


class Views(nn.Module):
    """Asks for a shape that there is none of."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.last = nn.Linear(7, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        x = x.view(3, 7)
        found: Tensor = self.last(x)
        return found


class Refuses(nn.Module):
    """Raises an exception of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.last = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        if x.shape[1] != 9:
            raise ValueError("nine are needed")
        found: Tensor = self.last(x)
        return found


@pytest.mark.parametrize(
    ("net", "node", "said"),
    [
        (Unfit(), "second", r"mat1 and mat2 shapes .* \(test_partial\.py, line \d+: found: Tensor = self\.last"),
        (Views(), "view", r"invalid for input .* \(test_partial\.py, line \d+: x = x\.view\(3, 7\)\)"),
        (Refuses(), "ne", r"nine are needed \(test_partial\.py, line \d+: raise ValueError"),
    ],
)
def test_the_node_that_fails_is_framed(net: nn.Module, node: str, said: str) -> None:
    with pytest.raises(pn.CompileError, match="cannot be called") as refused:
        pn.from_module(net, X)
    assert "with partial=True" in (refused.value.diagnostics[0].hint or "")
    graph = pn.from_module(net, X, partial=True)
    assert "first" in graph
    assert "last" in graph
    [name] = graph.frames
    assert node in graph.frames.held(name).nodes
    assert graph.frames[name].title == "This fails"
    assert graph.frames[name].colour == "red"
    assert re.search(said, graph.frames[name].text)


def test_inside_a_block_both_are_framed() -> None:
    graph = pn.from_module(nn.Sequential(nn.Linear(4, 4), Unfit(), nn.ReLU()), X, partial=True)
    [outer] = graph.frames
    assert graph.frames.held(outer).nodes == ("1",)
    assert graph.frames[outer].title == "second fails in here"
    assert [graph.frames.held(f"1.{name}").nodes for name in graph.graphs["Unfit"].frames] == [("second",)]


def test_the_report_says_that_nothing_is_proved() -> None:
    report = pn.from_module(Unfit(), X, partial=True).import_report
    assert re.match(
        r"Unfit: nothing of this is proved: it fails with the example: mat1 and mat2 .*line \d+", report.headline
    )
    assert {row.state for row in report.rows} <= {"unproved"}
    assert "nothing of this is proved" in report._repr_html_()


def test_what_is_mended_compiles_with_the_weights() -> None:
    net = Unfit()
    graph = pn.from_module(net, X, partial=True)
    assert graph["first"].origin is not None
    assert graph["first"].origin.proof == "edited"
    graph.set("second", in_features=8)
    model = pn.compile(graph, reuse=net)
    assert torch.equal(model.get_parameter("first.weight"), net.first.weight)
    assert model(X).shape == (2, 2)


def test_a_module_that_works_is_proved_all_the_same() -> None:
    graph = pn.from_module(nn.Linear(4, 2), X, partial=True)
    assert graph.import_report.closed == 0
    assert not graph.frames


class Interrupted(nn.Module):
    """Is interrupted in its n-th call, whoever calls it."""

    left = 0

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        type(self).left -= 1
        if type(self).left == 0:
            raise KeyboardInterrupt
        self.get_buffer("seen").add_(1)
        found: Tensor = self.fc(x)
        return found


@pytest.mark.parametrize("calls", [1, 2, 4, 6])
def test_an_interrupt_leaves_the_module_as_it_was(calls: int) -> None:
    net = nn.Sequential(Interrupted(), nn.Dropout(0.5))
    net[0].get_parameter("fc.weight").grad = torch.ones(4, 4)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    attributes = [dict(vars(part)) for part in net.modules()]
    state = torch.get_rng_state()
    Interrupted.left = calls
    with pytest.raises(KeyboardInterrupt):
        pn.from_module(net, X)
    assert [dict(vars(part)) for part in net.modules()] == attributes
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    grad = net[0].get_parameter("fc.weight").grad
    assert grad is not None
    assert torch.equal(grad, torch.ones(4, 4))
    assert torch.equal(torch.get_rng_state(), state)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_tells_how_far_it_is_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress_line, "FIRST", 0.0)
    monkeypatch.setattr(progress_line, "EVERY", 0.0)
    pn.from_module(nn.Sequential(nn.Linear(4, 4), Refusing()), X)
    lines = stream.getvalue().split("\r")
    assert any(line.startswith("importing Sequential [") and "calling 1" in line for line in lines)
    assert any("drawing 1" in line for line in lines)
    assert any("comparing inputs of other sizes" in line for line in lines)
    assert lines[-1] == ""


class Refusing(nn.Module):
    """Goes by the data."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.sum() > 0 else x


def test_the_report_lists_what_is_closed_and_why() -> None:
    graph = pn.from_module(nn.Sequential(nn.Sequential(nn.Linear(4, 4)), Refusing()), X)
    report = pn.NodeGraph.from_json(graph.to_json()).import_report
    assert report.headline == "Sequential: 2 nodes are open, 1 keeps the original's code."
    assert [(row.path, row.state, row.nodes) for row in report.rows] == [("0", "open", 1), ("1", "closed", 0)]
    assert "only known when it runs" in report.rows[1].reason
    assert "test_partial.py, line" in report.rows[1].reason
    assert "closed 1 (tests.compiler.importing.test_partial.Refusing)" in repr(report)
    html = report._repr_html_()
    assert html.count("<tr>") == 3
    assert "&gt; 0 is only known" in html
    assert pn.NodeGraph("new").import_report.headline == "new was not imported."
    as_given = pn.from_module(nn.Identity(), args=(torch.randn(2, 3),))
    assert as_given.import_report.headline == "Identity gives its inputs as they are."


def test_the_report_says_what_the_example_decided() -> None:
    class Even(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2 if x.shape[1] % 2 == 0 else x

    report = pn.from_module(Even(), X).import_report
    assert report.assumed == ("x.shape[1] % 2 == 0 is True",)
    assert "<li>x.shape[1] % 2 == 0 is True</li>" in report._repr_html_()
