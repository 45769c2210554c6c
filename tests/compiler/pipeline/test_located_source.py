"""The readable source with the lines of its nodes, of finished documents and of unfinished ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import pnne_nb as pn
from pnne_nb.compiler.pipeline.located_source import located_source
from pnne_nb.errors import CompileError, ShapeError


class Half(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        """`[n, 8]` to `[n, 8]`."""
        return torch.relu(self.fc(x)) + x


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Half()
        self.second = Half()

    def forward(self, x: Tensor) -> Tensor:
        """`[n, 8]` to `[n, 8]`."""
        given: Tensor = self.second(self.first(x))
        return given


def lines_of(graph: pn.NodeGraph, path: str) -> list[str]:
    found = located_source(graph)
    id, lines = "", tuple[int, ...]()
    for name in path.split("."):
        lines = found.classes[id].lines.get(name, ())
        id = found.classes[id].members.get(name, id)
    return [found.text.splitlines()[number - 1].strip() for number in lines]


def test_each_node_has_its_lines_also_inside_blocks_and_calls() -> None:
    graph = pn.from_module(Both(), args=(torch.ones(2, 8),))
    assert located_source(graph).text == pn.to_source(graph)
    first, second = lines_of(graph, "first.fc"), lines_of(graph, "second.fc")
    assert first == second, "equal blocks are one class"
    assert first[0] == "self.fc = nn.Linear(8, 8)"
    assert all("self.fc" in line for line in first)
    assert lines_of(graph, "first") == ["self.first = Half()", "given = self.first(x)  # (2, 8)"]
    (nested,) = lines_of(graph, "first.relu")
    assert "relu" in nested


def unfinished() -> pn.NodeGraph:
    graph = pn.NodeGraph("unfinished")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="a", out_features=4)
    graph.add("Linear", name="b")
    graph.add("Output", name="y")
    graph.connect("x", "a", "b", "y")
    return graph


def test_of_an_unfinished_graph_there_is_what_is_finished() -> None:
    graph = unfinished()
    found = located_source(graph)
    assert "self.a = nn.Linear(8, 4)" in found.text
    assert "self.b" not in found.text
    assert [diagnostic.node for diagnostic in found.error.diagnostics] == ["b"] if found.error else False
    assert graph == unfinished(), "the document is as it was"
    graph.set("b", out_features=2)
    assert located_source(graph).error is None


def test_of_what_has_only_begun_there_is_the_reason() -> None:
    graph = pn.NodeGraph("new")
    graph.add("Linear", name="fc")
    found = located_source(graph)
    assert found.text == ""
    assert isinstance(found.error, CompileError)


def test_shapes_that_do_not_fit_are_written_and_their_node_is_named() -> None:
    graph = unfinished()
    graph.set("b", in_features=5, out_features=4)
    found = located_source(graph)
    assert "self.b = nn.Linear(5, 4)" in found.text
    assert isinstance(found.error, ShapeError)
    assert [diagnostic.node for diagnostic in found.error.diagnostics] == ["b"], "that with the badge"
    assert found.notice == str(found.error), "nothing is missing"
    graph.remove("y")
    found = located_source(graph)
    assert found.error is not None
    assert [diagnostic.node for diagnostic in found.error.diagnostics] == [None, "b"]
    assert found.complete


def test_what_is_left_out_is_announced() -> None:
    notice = located_source(unfinished()).notice
    assert notice.startswith("Without what is wrong, and what follows it:\nb")


def test_without_an_output_the_open_results_are_given() -> None:
    graph = pn.NodeGraph("open")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="a", out_features=4)
    graph.connect("x", "a")
    found = located_source(graph)
    assert "return self.a(x)" in found.text
    assert found.notice.startswith("The graph has no output")
