"""An edit is looked at where it can matter, and nowhere else."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from torch import nn

import pnne_nb as pn
from pnne_nb.compiler.ir.bind import passed
from pnne_nb.compiler.ir.snapshot import read
from pnne_nb.compiler.pipeline import compile
from pnne_nb.compiler.pipeline.compile import affected_nodes, load
from tests.compiler import graphs
from tests.compiler.passes.graphs import convnet


def chain(count: int = 12) -> pn.NodeGraph:
    graph = pn.NodeGraph("chain")
    graph.add("Input", "x", shape=("N", 8))
    for index in range(count):
        graph.add("Linear", f"fc{index}", in_features=8, out_features=8)
    graph.add("Output", "y")
    return graphs.wire(graph, " ".join(["x", *(f"fc{index}" for index in range(count)), "y"]))


def blocks(count: int = 5) -> pn.NodeGraph:
    graph = chain(2 * count)
    for index in range(count):
        graph.group([f"fc{2 * index}", f"fc{2 * index + 1}"], f"block{index}")
    return graph


class Work:
    """Counts what compiling does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bound = self.looked_at = 0
        errors_at = pn.NodeGraph.diagnostics_at

        def counted_passed(*args: Any) -> object:
            self.bound += 1
            return passed(*args)

        def counted_look(graph: pn.NodeGraph, paths: list[str]) -> object:
            self.looked_at += len(paths)
            return errors_at(graph, paths)

        monkeypatch.setattr("pnne_nb.compiler.lowering.lower_node.passed", counted_passed)
        monkeypatch.setattr(pn.NodeGraph, "diagnostics_at", counted_look)
        monkeypatch.setattr(compile, "CHECKED_NODES", 0)  # shapes are a cache of their own

    def of(self, graph: pn.NodeGraph) -> tuple[int, int, set[str]]:
        """Compile; return how many nodes were bound, how many were looked at, and which classes were written."""
        self.bound = self.looked_at = 0
        before = {id(section) for _, section in load_sections(graph)}
        compile.load(graph)
        written = {name for name, section in load_sections(graph) if id(section) not in before}
        return self.bound, self.looked_at, written


def load_sections(graph: pn.NodeGraph) -> list[tuple[str, object]]:
    known = compile._known.get(id(graph))
    return [(name, section) for name, (_, section) in known.generated.sections.items()] if known is not None else []


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


def test_one_edit_of_a_flat_graph_binds_one_node(work: Work) -> None:
    graph = chain()
    assert work.of(graph) == (12, 0, {""})
    assert work.of(graph) == (0, 0, set()), "nothing at all while nothing changes"
    graph.set("fc3", bias=False)
    assert work.of(graph) == (1, 2, {""}), "the node, and the one behind it"


def test_an_edit_in_a_block_writes_that_block_alone(work: Work) -> None:
    graph = blocks()
    assert work.of(graph)[2] == {"", *(f"block{index}" for index in range(5))}
    graph.set("block2.fc4", bias=False)
    bound, _, written = work.of(graph)
    assert (bound, written) == (1, {"block2"})
    graph.move("block3", x=1, y=2)
    assert work.of(graph)[2] == {""}, "the outermost graph holds the node; its text stays the same"


def test_python_reads_again_what_was_written_anew_alone(work: Work) -> None:
    graph = blocks()
    first = load(graph)
    graph.set("block2.fc4", bias=False)
    second = load(graph)
    kept = [one is other for one, other in zip(first.codes, second.codes, strict=True)]
    assert kept.count(False) == 1
    assert pn.compile(graph).get_submodule("block2.fc4").bias is None
    assert work.bound


def test_blocks_below_an_edit_keep_their_places_in_the_text(work: Work) -> None:
    graph = blocks()
    load(graph)
    graph.add("ReLU", "block0.act")
    graph.disconnect("block0.fc1", "block0.output")
    graphs.wire(graph, "block0.fc1 block0.act block0.output")
    assert work.of(graph)[2] == {"block0"}
    lines = {line.nodes: line for line in pn.explain(pn.compile(graph)) if "self.fc9(" in line.text}
    code = type(pn.compile(graph).get_submodule("block4")).forward.__code__
    numbers = {number for _, _, number in code.co_lines()}
    assert lines["block4.fc9",].number in numbers
    broken = pn.compile(graph)
    broken.get_submodule("block4").register_module("fc9", nn.Linear(3, 8))
    with pytest.raises(pn.ExecutionError, match=r"Node 'block4\.fc9' failed"):
        broken(torch.zeros(1, 8))


def test_another_name_of_a_block_reaches_the_class_around_it(work: Work) -> None:
    graph = blocks()
    load(graph)
    graph.rename("block1", "stage")
    assert work.of(graph)[2] == {""}


def test_a_port_more_is_seen_by_those_who_show_the_block(work: Work) -> None:
    graph = blocks()
    load(graph)
    graph.add("Input", "block1.extra")
    with pytest.raises(pn.CompileError, match="block1"):
        load(graph)
    graph.undo()
    assert work.of(graph)[2] == set(), "as it was when it was last compiled"


def test_a_constant_reaches_what_it_is_written_into(work: Work) -> None:
    graph = graphs.mlp()
    graph.add("Constant", "factor", value=1)
    graph.add("mul", "scaled")
    graph.disconnect("fc2", "y")
    graphs.wire(graph, "fc2 scaled.input", "factor scaled.other", "scaled y")
    load(graph)
    graph.set("factor", value=True)  # which equals 1
    assert "* True" in load(graph).generated.text
    graph.set("factor", value=1.0)
    assert "* 1.0" in load(graph).generated.text
    assert work.bound


def test_equal_blocks_of_another_document_are_read_once() -> None:
    one, other = blocks(), blocks()
    other.add("Linear", "more", in_features=8, out_features=8)
    other.disconnect("block4", "y")
    graphs.wire(other, "block4 more y")
    shared = set(map(id, load(one).codes)) & set(map(id, load(other).codes))
    assert len(shared) >= 5


def test_an_error_after_an_edit_is_told_with_all_others() -> None:
    graph = chain()
    load(graph)
    graph.disconnect("fc3", "fc4")
    graph.disconnect("fc7", "fc8")
    with pytest.raises(pn.CompileError) as caught:
        pn.compile(graph)
    assert [each.node for each in caught.value.diagnostics] == ["fc4", "fc8"]
    graph.undo()
    with pytest.raises(pn.CompileError, match="fc4"):
        pn.compile(graph)
    graph.undo()
    pn.compile(graph)


def test_who_borrows_a_module_is_concerned_by_its_owner() -> None:
    graph = chain(3)
    graph.add("Linear", "tied", shares="fc0")
    before = read(graph)
    graph.set("fc0", bias=False)
    after = read(graph, before)
    assert set(affected_nodes(after, before)) == {"fc0", "fc1", "tied"}
    assert affected_nodes(read(graph, after), after) == []


EDITS = st.sampled_from(
    [
        "set",
        "checkpoint",
        "add",
        "remove",
        "rename",
        "rewire",
        "group",
        "ungroup",
        "constant",
        "undo",
        "redo",
        "inside",
        "share",
    ]
)


@hypothesis.settings(max_examples=25)
@hypothesis.given(st.lists(st.tuples(EDITS, st.integers(0, 7)), min_size=1, max_size=8))
def test_after_any_edits_the_source_is_that_of_a_fresh_document(edits: list[tuple[str, int]]) -> None:
    graph = blocks(4)
    graph.ungroup("block0")
    for edit, number in edits:
        try:
            _edit(graph, edit, number)
        except pn.GraphError:
            continue
        fresh = pn.NodeGraph.from_json(graph.to_json())
        fresh.name = graph.name
        results: list[object] = []
        for each in (graph, fresh):
            try:
                generated = load(each).generated
                results.append((generated.text, generated.lines))
            except pn.CompileError as error:
                results.append(str(error))
        assert results[0] == results[1]


def _edit(graph: pn.NodeGraph, edit: str, number: int) -> None:
    names = [name for name, node in graph.nodes.items() if node.type not in ("Input", "Output")]
    name = names[number % len(names)]
    layers = [each for each in names if graph[each].type == "Linear"] or names
    match edit:
        case "set":
            graph.set(layers[number % len(layers)], bias=bool(number % 2))
        case "checkpoint":
            graph.set(name, checkpoint=bool(number % 2))
        case "add":
            graph.add("Linear", f"new{number}", in_features=8, out_features=8)
        case "remove":
            graph.remove(name)
        case "rename":
            graph.rename(name, f"other{number}")
        case "rewire":
            edge = graph.edges[number % len(graph.edges)]
            graph.disconnect(edge[0], edge[1])
            graph.connect("x.output", edge[1])
        case "group":
            graph.group([name], f"group{number}")
        case "ungroup":
            graph.ungroup(name)
        case "constant":
            graph.add("Constant", "factor", value=(1, True, 1.0)[number % 3])
            graph.add("mul", "scaled")
            graph.connect("factor", "scaled.other")
            graph.connect("x.output", "scaled.input")
        case "undo":
            graph.undo()
        case "redo":
            graph.redo()
        case "inside":
            graph.set(f"block{1 + number % 3}.fc{2 + 2 * (number % 3)}", bias=bool(number % 2))
        case "share":
            graph.add("Linear", f"tied{number}", shares=layers[0])


def test_reading_again_gives_the_same_object_where_nothing_changed() -> None:
    graph = convnet(2)
    before = read(graph)
    graph.set("block0.conv0", bias=False)
    after = read(graph, before)
    assert {id for id in after if after[id] is not before[id]} == {graph["block0"].definition}
