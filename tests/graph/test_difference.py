"""Differences of documents: what was edited is told, what stays is not, under whatever name it stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pnne_nb as pn


def net() -> pn.NodeGraph:
    graph = pn.NodeGraph(name="net")
    graph.add("Input", name="x", shape=("N", 1, 28, 28))
    graph.add("Conv2d", name="conv1", in_channels=1, out_channels=6, kernel_size=5)
    graph.add("ReLU", name="relu1")
    graph.add("Conv2d", name="conv2", in_channels=6, out_channels=16, kernel_size=5)
    graph.add("ReLU", name="relu2")
    graph.add("Output", name="y")
    graph.connect("x", "conv1", "relu1", "conv2", "relu2", "y")
    return graph


def copied(graph: pn.NodeGraph) -> pn.NodeGraph:
    return pn.NodeGraph.from_json(graph.to_json())


def rows(before: pn.NodeGraph, after: pn.NodeGraph) -> list[str]:
    return [str(node) for node in pn.diff(before, after)]


def test_equal_documents_do_not_differ() -> None:
    graph = net()
    other = copied(graph)
    other.move("conv1", x=500, y=500)
    other.set("conv1", stride=1)  # the default
    found = pn.diff(graph, other)
    assert not found
    assert len(found) == 0
    assert repr(found) == "net: no node differs."


def test_each_kind_of_edit_is_one_row() -> None:
    graph = net()
    after = copied(graph)
    after.set("conv1", out_channels=8)
    after.rename("conv2", "second")
    after.set("relu1", type="GELU")
    after.add("Dropout", name="drop")
    after.insert_after("relu2", "BatchNorm2d", num_features=16)
    found = pn.diff(graph, after)
    assert {node.path: node.kind for node in found} == {
        "conv1": "changed", "relu1": "changed", "second": "renamed", "drop": "added", "batch_norm2d1": "added", "y": "changed",
    }  # fmt: skip
    assert "~ conv1 (Conv2d): out_channels 6 → 8" in repr(found)
    assert "> second (Conv2d): was conv2" in repr(found)
    assert "~ relu1 (GELU): type ReLU → GELU" in repr(found)
    assert "~ y (Output): input from batch_norm2d1.output, was relu2.output" in repr(found)
    back = pn.diff(after, graph)
    assert {node.kind for node in back} == {"changed", "renamed", "removed"}
    assert sorted(node.path for node in back if node.kind == "removed") == ["batch_norm2d1", "drop"]


def test_of_equal_layers_the_renamed_one_is_found_by_its_input() -> None:
    graph = net()
    after = copied(graph)
    after.rename("relu2", "last")
    after.rename("relu1", "first")
    assert rows(graph, after) == ["> first (ReLU): was relu1", "> last (ReLU): was relu2"]


def test_a_block_is_one_row_and_what_moved_into_it_is_told() -> None:
    graph = net()
    after = copied(graph)
    after.group(["conv2", "relu2"], name="block")
    found = {node.path: node for node in pn.diff(graph, after)}
    assert found["block"].kind == "added"
    assert (found["block.conv2"].kind, found["block.conv2"].before) == ("renamed", "conv2")
    assert (found["block.relu2"].kind, found["block.relu2"].before) == ("renamed", "relu2")
    renamed = copied(after)
    renamed.rename("block", "tail")
    assert rows(after, renamed) == ["> tail (Subgraph): was block"]
    inside = copied(after)
    inside.set("block.conv2", out_channels=32)
    assert rows(after, inside) == ["~ block.conv2 (Conv2d): out_channels 16 → 32"]
    inside.remove("block")
    assert [str(node) for node in pn.diff(after, inside) if node.kind == "removed"] == ["- block (Subgraph)"]


def test_unregistered_types_are_compared(tmp_path: Path) -> None:
    text = net().to_json().replace('"ReLU"', '"Swoosh"')
    graph = pn.NodeGraph.from_json(text)
    assert not pn.diff(graph, pn.NodeGraph.from_json(text))
    assert len(pn.diff(graph, net())) == 2


def test_files_and_the_page(tmp_path: Path) -> None:
    graph = net()
    graph.save(tmp_path / "before.pnne.json")
    graph.set("conv1", out_channels=8)
    graph.remove("relu2", reconnect=True)
    found = pn.diff(tmp_path / "before.pnne.json", graph)
    html = found._repr_html_()
    assert "net: 1 removed, 2 changed." in html
    found.to_html(tmp_path / "d.html")
    page = (tmp_path / "d.html").read_text(encoding="utf-8")
    assert page.count("<img") == 2
    assert "out_channels 6 → 8" in page
    assert not graph.frames  # the pictures are of copies


def test_a_golden_file_holds_a_structure(tmp_path: Path) -> None:
    graph, golden = net(), tmp_path / "golden.pnne.json"
    graph.save(golden)
    pn.assert_unchanged(graph, golden)
    graph.set("conv2", kernel_size=3)
    with pytest.raises(
        AssertionError, match=r"~ conv2 \(Conv2d\): kernel_size 5 → 3\nIf it is meant so, write graph\.save"
    ):
        pn.assert_unchanged(graph, golden)
    with pytest.raises(pn.GraphFileNotFoundError):
        pn.assert_unchanged(graph, tmp_path / "missing.pnne.json")


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(pn.ArgumentError, match=r"b must be a NodeGraph or the path of its file, not 3.*from_module"):
        pn.diff(net(), 3)  # type: ignore[arg-type]
    with pytest.raises(pn.ArgumentError, match="graph must be a NodeGraph"):
        pn.assert_unchanged(3, "golden.pnne.json")  # type: ignore[arg-type]


EDITS = (
    lambda graph: graph.rename("conv1", "a"),
    lambda graph: graph.rename("relu2", "b"),
    lambda graph: graph.group(["relu1", "conv2"], name="block"),
    lambda graph: graph.remove("relu2", reconnect=True),
    lambda graph: graph.insert_after("relu1", "Dropout", p=0.1),
    lambda graph: graph.set("conv2", padding=2),
    lambda graph: graph.disconnect("conv2.output", "relu2.input"),
)


@given(st.lists(st.sampled_from(EDITS), max_size=5))
def test_both_directions_agree_and_undo_leaves_no_difference(edits: list[object]) -> None:
    graph = net()
    after = copied(graph)
    for edit in edits:
        try:
            edit(after)  # type: ignore[operator]
        except pn.GraphError:
            continue
    there, back = pn.diff(graph, after), pn.diff(after, graph)
    swapped = {"added": "removed", "removed": "added"}
    moved = {(node.before, node.path) for node in there if node.kind == "renamed"}
    assert moved == {(node.path, node.before) for node in back if node.kind == "renamed"}
    for kind, other in swapped.items():
        assert {n.path for n in there if n.kind == kind} == {n.path for n in back if n.kind == other}
    assert bool(there) == bool(back)
    while after.undo_label is not None:
        after.undo()
    assert not pn.diff(graph, after)
