"""Blocks: published, offered, used, kept in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pnne_nb as pn
from pnne_nb.errors import GraphError, GraphFileError, UnknownNodeError
from pnne_nb.graph.block_library import BlockLibrary


@pytest.fixture
def library() -> Iterator[BlockLibrary]:
    """The process's library, empty before and after."""
    yield pn.blocks
    for name in list(pn.blocks):
        pn.blocks.remove(name)


@pytest.fixture
def graph() -> pn.NodeGraph:
    """Two uses of a block that has another block inside."""
    graph = pn.NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="fc", out_features=8)
    graph.add("ReLU", name="relu")
    graph.add("Linear", name="last", out_features=8)
    graph.add("Output", name="y")
    for start, end in (("x", "fc"), ("fc", "relu"), ("relu", "last"), ("last", "y")):
        graph.connect(start, end)
    graph.group(["fc", "relu"], name="inner")
    graph.group(["inner", "last"], name="block")
    return graph


def test_a_published_block_is_used_in_another_document(library: BlockLibrary, graph: pn.NodeGraph) -> None:
    published = library.publish(graph, "block", "Dense")
    assert published.definition == "Dense"
    other = pn.NodeGraph("other")
    first, second = library.insert("Dense", other), library.insert("Dense", other, "again")
    assert (first.name, second.name) == ("dense1", "again")
    assert first.definition == second.definition == "Dense"
    assert set(other.graphs) == {"", "Dense", "inner"}
    assert other["again.inner.fc"].properties == {"out_features": 8}
    assert other.undo_label == "Add Dense"
    other.undo()
    other.undo()
    assert other == pn.NodeGraph("other")


def test_a_block_that_is_published_again_does_not_change_what_uses_it(
    library: BlockLibrary, graph: pn.NodeGraph
) -> None:
    library.publish(graph, "block", "Dense")
    other = pn.NodeGraph("other")
    library.insert("Dense", other, "old")
    graph.set("block.inner.fc", out_features=3)
    library.publish(graph, "block", "Dense")
    library.insert("Dense", other, "new")
    assert other["old.inner.fc"].properties["out_features"] == 8
    assert other["new.inner.fc"].properties["out_features"] == 3
    assert list(library) == ["Dense"]


def test_shared_weights_frames_and_looks_come_along(library: BlockLibrary, graph: pn.NodeGraph) -> None:
    graph.add("Linear", name="block.tied", out_features=8)
    graph.set("block.tied", shares="last")
    graph.collapse("block.last")
    graph.frames.add("Head", box=(0, 0, 99, 99), name="block.head")
    library.publish(graph, "block")
    other = pn.NodeGraph("other")
    library.insert("block", other, "b")
    assert other["b.tied"].shares == "last"
    assert other["b.last"].collapsed
    assert other.frames["b.head"].title == "Head"


def test_blocks_are_kept_in_a_graph_file(library: BlockLibrary, graph: pn.NodeGraph, tmp_path: Path) -> None:
    library.publish(graph, "block", "Dense")
    library.publish(graph, "block.inner", "Small")
    library.save(tmp_path / "blocks.pnne.json")
    for name in list(library):
        library.remove(name)
    assert set(library.graph.graphs) == {""}
    assert library.load(tmp_path / "blocks.pnne.json") == ("Dense", "Small")
    assert library.graph["Dense.inner.fc"].type == "Linear"
    graph.save(tmp_path / "net.pnne.json")
    assert library.load(tmp_path / "net.pnne.json") == ("block",), "any graph's nested graphs are blocks"


def test_what_is_no_block_is_said(library: BlockLibrary, graph: pn.NodeGraph, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="x is a Input: only a Subgraph node can become a block"):
        library.publish(graph, "x")
    with pytest.raises(UnknownNodeError, match=r"There is no block 'Dens'\."):
        library.insert("Dens", graph)
    library.publish(graph, "block", "Dense")
    with pytest.raises(UnknownNodeError, match=r"There is no block 'Dens'\. Did you mean 'Dense'\?"):
        library.remove("Dens")
    with pytest.raises(GraphError, match="letters A-Z a-z, digits and underscores"):
        library.publish(graph, "block", "two words")
    pn.NodeGraph("flat").save(tmp_path / "flat.pnne.json")
    with pytest.raises(GraphError, match="There is no block in this file"):
        library.load(tmp_path / "flat.pnne.json")
    with pytest.raises(GraphFileError, match="this is not JSON"):
        library.load_text("{")
    assert list(library) == ["Dense"]
