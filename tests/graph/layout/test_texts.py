"""What a card says of a node's values, as the browser says it, and what is cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pnne_nb.graph.layout.texts import BETWEEN, block_words, fitted, is_wide, lines, parts, row_title, shape_label
from pnne_nb.graph.model.content import GraphIndex
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.schema.spec import REQUIRED, NodeSpec, Property
from pnne_nb.graph.schema.values import from_json
from pnne_nb.protocol.messages import NodeTypeState

CASES = json.loads((Path(__file__).parents[2] / "cases" / "cards.json").read_text(encoding="utf-8"))


def spec(data: dict[str, Any]) -> NodeSpec:
    """The node type that a browser would be told of so."""
    state = msgspec.convert(data, NodeTypeState)
    properties = tuple(
        Property(prop.name, prop.type, REQUIRED if prop.required else from_json(prop.default), prop.role)
        for prop in state.properties
    )
    return NodeSpec(state.type, state.category.name, state.kind, properties=properties)


TYPES = {data["type"]: spec(data) for data in CASES["types"]}


@pytest.mark.parametrize("case", CASES["cards"], ids=lambda case: f"{case['type']} {case['properties']}")
def test_the_values_that_matter(case: dict[str, Any]) -> None:
    values = {name: from_json(value) for name, value in case["properties"].items()}
    resolved = {name: from_json(value) for name, value in case.get("resolved", {}).items()}
    node, type = Node("node", case["type"], values), TYPES.get(case["type"])
    assert BETWEEN.join(parts(node, type, resolved)) == case["summary"]


@pytest.mark.parametrize("case", CASES["blocks"], ids=lambda case: case["about"])
def test_a_block_says_what_it_is_or_holds(case: dict[str, Any]) -> None:
    graphs = {}
    for id, nodes in case["graphs"].items():
        graph = graphs[id] = GraphIndex(id)
        for name, type, what in nodes:
            key = "definition" if type == "Subgraph" else "target"
            graph.nodes[name] = Node(name, type, {key: what} if what else {})
    assert block_words(Node(case["name"], "Subgraph", {"definition": case["definition"]}), graphs) == case["words"]


@pytest.mark.parametrize(("first", "last", "title"), CASES["rows"])
def test_a_row_is_called_after_its_ends(first: str, last: str, title: str) -> None:
    assert row_title(first, last) == title


@pytest.mark.parametrize("case", CASES["edges"], ids=lambda case: case["label"])
def test_shapes(case: dict[str, Any]) -> None:
    assert shape_label(case["shape"], case["dtype"]) == case["label"]


def test_what_does_not_fit_is_cut() -> None:
    assert fitted("conv1", 100, 13) == "conv1"
    assert fitted("a_branch_with_a_very_long_name", 100, 13) == "a_branch_wit…"
    assert fitted("層" * 20, 65, 13) == "層層層層…"
    assert fitted("long", 1, 13) == "…"


@pytest.mark.parametrize("case", CASES["lines"], ids=lambda case: str(case["parts"]))
def test_lines(case: dict[str, Any]) -> None:
    assert lines(case["parts"], wide=case["wide"]) == case["lines"]


@pytest.mark.parametrize("case", CASES["widths"], ids=lambda case: case["about"])
def test_a_card_is_wide_for_a_text_that_a_narrow_one_would_cut(case: dict[str, Any]) -> None:
    assert is_wide(case["title"], case["kind"], case["parts"], case["marks"]) == case["wide"]


def test_a_computed_index_is_written_in_brackets() -> None:
    assert parts(Node("part", "getitem"), None, {}, {"index": ":, :T"}) == ["[:, :T]"]
