"""Paths: every node is found by the path under which it is listed, and ends of edges by what people write."""

from __future__ import annotations

import pytest

from pnne_nb.errors import UnknownNodeError
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.model.ops import AddGraph, AddNode
from pnne_nb.graph.model.origin import Origin
from pnne_nb.graph.model.paths import enter, find_end, find_node, path_of, paths_in


def nested() -> Content:
    """``x``, ``block`` (``x``, ``act``, ``inner`` (``act``), ``y``)."""
    content = Content("net")
    for op in (
        AddGraph("Inner"),
        AddNode("act", "ReLU", graph="Inner"),
        AddGraph("Block"),
        AddNode("x", "Input", graph="Block"),
        AddNode("act", "ReLU", graph="Block"),
        AddNode("inner", "Subgraph", {"definition": "Inner"}, graph="Block"),
        AddNode("y", "Output", graph="Block"),
        AddNode("x", "Input"),
        AddNode("block", "Subgraph", {"definition": "Block"}),
    ):
        apply_op(content, op)
    return content


def test_every_listed_path_finds_its_node() -> None:
    content = nested()
    paths = list(paths_in(content))
    assert paths == ["x", "block", "block.x", "block.act", "block.inner", "block.inner.act", "block.y"]
    for path in paths:
        graph, node, prefix = find_node(content, path)
        assert prefix + node.name == path
        assert graph is enter(content, prefix.removesuffix("."))
        assert graph.nodes[node.name] is node
    assert find_node(content, "inner.act", within="Block")[2] == "inner."


@pytest.mark.parametrize(
    ("path", "output", "node", "port"),
    [
        ("block.x", False, "block", "x"),  # the port, which the block has on this side
        ("block.x", True, "x", ""),  # the node inside: the block has no output of that name
        ("block.y", True, "block", "y"),
        ("block.act.output", True, "act", "output"),
        ("block.nothing", True, "block", "nothing"),
        ("x", True, "x", ""),
    ],
)
def test_one_text_means_a_port_or_a_node_inside(path: str, output: bool, node: str, port: str) -> None:
    _, found, end = find_end(nested(), path, output=output)
    assert (found.name, end) == (node, port)


def test_what_is_nowhere_is_named() -> None:
    content = nested()
    with pytest.raises(UnknownNodeError, match=r"There is nothing inside 'act' in definition 'Block': it is a ReLU\."):
        enter(content, "block.act")
    with pytest.raises(UnknownNodeError, match=r"There is no node 'blok'.*block"):
        find_node(content, "blok.act")
    with pytest.raises(UnknownNodeError, match=r"3 is not a node: give a node of the graph, or its name\."):
        path_of(3)  # type: ignore[arg-type]  # which is the point
    assert path_of(Node("a", "ReLU", path="block.a")) == "block.a"


def test_the_name_of_a_whole_model_may_be_left_out() -> None:
    content = Content("net")
    for op in (
        AddGraph("Held"),
        AddNode("fc", "ReLU", graph="Held"),
        AddNode("x", "Input", graph="Held"),
        AddNode("x", "Input"),
        AddNode("module", "Module", {"definition": "Held"}, origin=Origin("opaque", held="")),
    ):
        apply_op(content, op)
    assert find_node(content, "fc")[2] == "module."
    assert find_node(content, "x")[2] == ""  # its own come first
