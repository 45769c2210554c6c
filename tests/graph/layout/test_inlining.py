"""What is written on cards instead of being drawn; vitest replays the same cases on the browser's code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.layout.inlining import Inlining, inlining
from pnne_nb.graph.model.content import GraphIndex
from pnne_nb.graph.model.node import Edge, Node, split_port
from pnne_nb.graph.model.origin import Origin
from pnne_nb.graph.schema.property_types import IntType
from pnne_nb.graph.schema.registry import Registry
from pnne_nb.graph.schema.spec import NodeSpec, Port, Property
from pnne_nb.graph.schema.values import from_json
from tests.graph.types import TYPES

CASES = json.loads((Path(__file__).parents[2] / "cases" / "inlining.json").read_text(encoding="utf-8"))["cases"]


def graph_of(nodes: dict[str, Any], edges: list[tuple[str, str]]) -> GraphIndex:
    graph = GraphIndex("")
    for name, (type, properties, *variable) in nodes.items():
        origin = Origin("equal", variables={"output": variable[0]}) if variable else None
        values = {key: from_json(value) for key, value in properties.items()}
        graph.insert_node(Node(name, type, values, origin=origin))
    for source, target in edges:
        graph.insert_edge(Edge(source, target))
    return graph


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_what_is_written_is_as_in_the_browser(case: dict[str, Any]) -> None:
    found = inlining(graph_of(case["nodes"], case["edges"]))
    assert found.hidden == set(case["hidden"])
    assert found.texts == case["written"]
    assert found.picks == case["picks"]
    assert [list(chain) for chain in found.chains] == case["chains"]


def test_an_edge_from_a_part_begins_at_what_gives_it() -> None:
    found = Inlining(picks={"q": "chunk.q"}, chains=(("view", "transpose"),))
    assert found.giver("q.output") == ("chunk", "q")
    assert found.giver("chunk.output") == split_port("chunk.output")
    assert found.heads == {"transpose": "view"}


def test_a_long_row_of_values_is_cut_and_costs_no_recursion() -> None:
    nodes: dict[str, Any] = {"x": ["Input", {}], "size": ["size", {"dim": 0}]}
    edges = [("x.output", "size.input")]
    before = "size"
    for place in range(3000):
        name = f"add{place}"
        nodes[name] = ["operator_add", {}]
        edges += [(f"{before}.output", f"{name}.a"), (f"{before}.output", f"{name}.b")]
        before = name
    nodes["view"] = ["view", {}]
    edges += [("x.output", "view.input"), (f"{before}.output", "view.size")]
    found = inlining(graph_of(nodes, edges))
    assert len(found.hidden) == 3001
    assert found.texts["view.size"].endswith("…")
    assert len(found.texts["view.size"]) == 60


def test_arranging_places_cards_close_and_the_rest_beside_them() -> None:
    dim = Property("dim", IntType(), default=None, role="call")
    size = NodeSpec("size", "Shape", "method", inputs=(Port("input"),), outputs=(Port("output"),), properties=(dim,))
    graph = NodeGraph("sizes", types=Registry((*TYPES.values(), size)))
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("size", name="size", dim=0)
    graph.add("ReLU", name="act")
    graph.add("add", name="scaled")
    graph.connect("x.output", "size.input")
    graph.connect("x.output", "act.input")
    graph.connect("act.output", "scaled.input")
    graph.connect("size.output", "scaled.other")
    graph.arrange()
    places = {name: node.position or (0.0, 0.0) for name, node in graph.nodes.items()}
    assert places["size"][0] < min(places[name][0] for name in ("x", "act", "scaled")) - 176
    assert places["x"][0] == places["act"][0] == places["scaled"][0], "edges run straight where nothing else is drawn"
    graph.arrange(values=True)
    assert graph["size"].position != places["size"], "as cards, they stand among the others"
    assert graph["size"].position is not None
    svg = graph.to_svg()
    assert 'data-node="size"' not in svg
    assert "x.size(0)" in svg
