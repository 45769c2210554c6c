"""A block gets a definition of its own; the cases are replayed in the browser's language too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pnne_nb.errors import GraphError, UnknownNodeError
from pnne_nb.graph.document import NodeGraph
from tests.graph.types import TYPES

CASES = json.loads((Path(__file__).parents[2] / "cases" / "own.json").read_text(encoding="utf-8"))["cases"]


def _document(data: object) -> NodeGraph:
    return NodeGraph.from_json(json.dumps(data), types=TYPES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_case(case: dict[str, Any]) -> None:
    graph, after = _document(case["document"]), _document(case["after"])
    before = graph.to_json()
    user = {"": "", "B": "a."}[case["graph"]]
    node = graph.make_own(user + case["node"])
    assert graph.to_json() == after.to_json()
    assert node.definition == after[user + case["node"]].definition
    if case["document"] != case["after"]:
        assert graph.undo_label == f"Make {case['node']} its own"
        graph.undo()
    assert graph.to_json() == before


def test_an_edit_inside_changes_it_alone() -> None:
    graph = _document(CASES[0]["document"])
    graph.make_own("b")
    graph.rename("b.n", "changed")
    assert "a.n" in graph
    assert "b.changed" in graph


def test_only_a_block_has_a_definition() -> None:
    graph = NodeGraph("net", types=TYPES)
    graph.add("ReLU", name="relu")
    with pytest.raises(GraphError, match=r"relu is a ReLU, not a nested graph: there is no definition to own\."):
        graph.make_own("relu")
    with pytest.raises(UnknownNodeError, match=r"no node 'rely'.*relu"):
        graph.make_own("rely")
    assert graph.version == 1
