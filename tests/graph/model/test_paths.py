"""Paths: every node is found by the path under which it is listed, and ends of edges by what people write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pnne_nb.errors import UnknownNodeError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.model.ops import AddGraph, AddNode
from pnne_nb.graph.model.origin import Origin
from pnne_nb.graph.model.paths import enter, find_end, find_node, path_of, paths_in
from tests.graph.types import TYPES


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


CASES = json.loads((Path(__file__).parents[2] / "cases" / "repeats.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_rows_are_found_and_folded(case: dict[str, Any]) -> None:
    graph = NodeGraph.from_json(json.dumps(case["document"]), types=TYPES)
    scene = graph._scene("", {}, case["resolved"], fold=True)
    assert [[list(row) for row in card.run] for card in scene.cards if card.run] == case["runs"]
    centres = {card.name: [card.x + card.geometry.width / 2, card.y + card.geometry.height / 2] for card in scene.cards}
    assert centres == case["shown"]


def _row(length: int) -> NodeGraph:
    graph = NodeGraph("row", types=TYPES)
    layers = (("ReLU", {"name": f"relu{place}"}) for place in range(length))
    graph.chain(("Input", {"name": "x", "shape": ("N", 8)}), *layers, ("Output", {"name": "y"}))
    return graph


def test_a_folded_picture_has_one_card_and_says_how_many_it_is() -> None:
    graph = _row(12)
    picture = ET.fromstring(graph.to_svg(fold=True))
    names = [
        group.get("data-node") for group in picture.iter("{http://www.w3.org/2000/svg}g") if group.get("data-node")
    ]
    edges = [
        path.get("data-edge") for path in picture.iter("{http://www.w3.org/2000/svg}path") if path.get("data-edge")
    ]
    words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert names == ["x", "relu0", "y"]
    assert edges == ["relu11.output->y.input", "x.output->relu0.input"]
    assert {"relu0 … relu11", "×12"} <= set(words)
    assert "relu0 to relu11, 12 equal nodes in a row" in graph.to_html(fold=True)
    whole = ET.fromstring(graph.to_svg())
    assert float(picture.get("height", "0")) < float(whole.get("height", "0")) / 3
