"""What a document says of itself: by path, as text, and as a state that later changes do not reach."""

from __future__ import annotations

import pytest

from pnne_nb.errors import UnknownNodeError
from pnne_nb.graph.document import NodeGraph
from tests.graph.types import TYPES


@pytest.fixture
def graph() -> NodeGraph:
    made = NodeGraph("net", types=TYPES)
    made.add("Input", name="x")
    made.add("ReLU", name="act")
    made.add("Output", name="y")
    made.connect("x", "act", "y")
    made.group(["act"], name="block")
    return made


def test_it_is_a_mapping_by_path(graph: NodeGraph) -> None:
    assert list(graph) == list(graph.nodes)
    assert len(graph) == 3
    assert bool(NodeGraph("empty"))  # there is a document, with nothing in it
    assert "block.act" in graph
    assert "block.gone" not in graph
    assert 3 not in graph
    assert graph["block.act"].path == "block.act"
    with pytest.raises(UnknownNodeError, match=r"no node 'blok'"):
        graph["blok"]


def test_a_frozen_state_is_that_of_its_moment(graph: NodeGraph) -> None:
    kept, text = graph.frozen(), graph.to_json()
    graph.rename("block.act", "other")
    state = kept()
    assert {node.name for node in state.graphs["block"].nodes} >= {"act"}
    assert {node.name for node in graph.state().graphs["block"].nodes} >= {"other"}
    assert graph.to_json() != text
    graph.undo()
    assert graph.to_json() == text
    assert NodeGraph.from_json(text, types=TYPES) == graph


def test_diagnostics_are_those_of_the_paths_that_are_asked_for(graph: NodeGraph) -> None:
    graph.disconnect("x", "block")
    every = graph.diagnostics()
    assert every
    asked = graph.diagnostics_at(["block"])
    assert asked["block"] == [each for each in every if each.node == "block"]


def test_an_arranged_state_has_a_place_for_every_node(graph: NodeGraph) -> None:
    assert any(node.position is None for node in graph.state().graphs[""].nodes)
    assert all(node.position is not None for node in graph.state(arranged=True).graphs[""].nodes)
