"""Freezing nodes and blocks, also of shared definitions, and another head: each one undoable change."""

from __future__ import annotations

import pytest

import pnne_nb as pn
from pnne_nb.errors import BadValueError, GraphError, UnknownNodeError


def drawn() -> pn.NodeGraph:
    """Return a graph with a block of two layers and a head."""
    graph = pn.NodeGraph()
    graph.chain(
        ("Input", {"name": "x", "shape": ("N", 4)}),
        ("Linear", {"name": "a", "out_features": 4}),
        ("LayerNorm", {"name": "norm", "normalized_shape": (4,)}),
        ("ReLU", {"name": "act"}),
        ("Linear", {"name": "fc", "out_features": 5}),
        ("Output", {"name": "y"}),
    )
    graph.group(["a", "norm"], name="block")
    return graph


def twice() -> pn.NodeGraph:
    """Return a graph that shows one block twice."""
    graph = drawn()
    definition = graph["block"].definition
    graph.add("Subgraph", name="again", definition=definition)
    graph.disconnect("block", "act")
    graph.connect("block", "again", "act")
    return graph


def trained(graph: pn.NodeGraph) -> list[str]:
    return [path for path in graph.find() if graph[path].type in ("Linear", "LayerNorm") and graph[path].trainable]


def test_a_block_is_frozen_with_all_inside_and_undo_takes_it_back() -> None:
    graph = drawn()
    before = graph.to_json()
    assert graph.freeze("block") == ["block"]
    assert trained(graph) == ["fc"]
    assert graph["block.a"].frozen_by == "block"
    assert graph.step_labels()[0][-1] == "Freeze block"
    graph.undo()
    assert graph.to_json() == before


def test_a_pattern_freezes_the_nodes_with_weights_that_fit_the_outermost_first() -> None:
    graph = drawn()
    assert graph.freeze("*") == ["block", "fc"]
    graph.undo()
    assert graph.freeze("block.*", "f?") == ["block.a", "block.norm", "fc"]
    assert trained(graph) == []
    assert graph.unfreeze("*") == ["block", "fc"]
    assert graph.unfreeze("block.norm") == ["block.norm"]
    assert trained(graph) == ["block.norm", "fc"]


def test_of_a_block_that_is_shown_twice_only_the_one_that_is_meant_is_frozen() -> None:
    graph = twice()
    graph.freeze("again.norm")
    assert trained(graph) == ["block.a", "block.norm", "fc", "again.a"]
    assert graph["again"].definition != graph["block"].definition

    graph = twice()
    graph.freeze("*norm")
    assert trained(graph) == ["block.a", "fc", "again.a"]
    assert graph["again"].definition == graph["block"].definition, "both are meant, so they go on to share it"


def test_a_node_of_a_frozen_block_is_trained_alone() -> None:
    graph = twice()
    graph.group(["block", "again"], name="stage")
    graph.freeze("stage", eval_mode=True)
    assert graph.unfreeze("stage.again.norm") == ["stage.again.norm"]
    assert trained(graph) == ["stage.again.norm", "fc"]
    assert graph["stage.block"].properties["eval_mode"] is True
    assert "eval_mode" not in graph["stage.again"].properties
    graph.undo()
    assert trained(graph) == ["fc"]


def test_parameters_are_frozen_and_values_without_weights_are_refused() -> None:
    graph = drawn()
    graph.add("Parameter", name="scale", shape=(4,))
    graph.freeze("scale")
    assert graph["scale"].properties["requires_grad"] is False
    assert not graph["scale"].trainable
    graph.unfreeze("scale")
    assert graph["scale"].trainable


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ([], GraphError, r'Name the nodes: graph.freeze\("layer1", "bn\*"\), or graph.freeze\("\*"\) for all'),
        (["act"], GraphError, r"act has no weights of its own: training does not change a ReLU"),
        (["a*"], GraphError, r"No node with weights fits 'a\*'"),
        (["fc", "fd"], UnknownNodeError, r"There is no node 'fd'"),
    ],
)
def test_what_cannot_be_frozen_is_told_and_nothing_is_frozen(
    names: list[str], error: type[Exception], message: str
) -> None:
    graph = drawn()
    version = graph.version
    with pytest.raises(error, match=message):
        graph.freeze(*names)
    assert graph.version == version


def test_a_head_is_replaced_with_its_edges_and_is_trained() -> None:
    graph = drawn()
    graph.freeze("*")
    head = graph.replace_head(3)
    assert (head.name, head.properties["out_features"], head.trainable) == ("fc", 3, True)
    assert ("fc.output", "y.input") in graph.edges
    assert ("act.output", "fc.input") in graph.edges
    assert trained(graph) == ["fc"]
    graph.undo()
    assert graph["fc"].properties["out_features"] == 5
    assert trained(graph) == []


def test_a_head_inside_a_frozen_block_is_found_and_trained() -> None:
    graph = drawn()
    graph.group(["act", "fc"], name="classifier")
    graph.freeze("*")
    assert graph.replace_head(3).path == "classifier.fc"
    assert trained(graph) == ["classifier.fc"]


def test_where_the_head_is_not_clear_the_line_to_write_is_told() -> None:
    graph = drawn()
    graph.add("Linear", name="second", out_features=2)
    graph.add("Output", name="z")
    graph.connect("act", "second", "z")
    with pytest.raises(
        GraphError, match=r'2 layers make its results \(fc, second\).*graph.replace_head\(10, at="fc"\)'
    ):
        graph.replace_head(3)
    assert graph.replace_head(3, at="second").properties["out_features"] == 3
    with pytest.raises(GraphError, match=r"act is no head: a ReLU has no number of features or channels"):
        graph.replace_head(3, at="act")
    with pytest.raises(BadValueError, match="out_features"):
        graph.replace_head(-1, at="fc")
    graph.add("Linear", name="tied", shares="fc")
    with pytest.raises(GraphError, match=r"fc shares its weights with tied"):
        graph.replace_head(3, at="fc")
    empty = pn.NodeGraph()
    with pytest.raises(GraphError, match="no Linear or Conv makes its result"):
        empty.replace_head(3)
