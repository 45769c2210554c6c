"""Edits of many nodes at once: found by pattern and type, of another type, without a gap, followed by a new one."""

from __future__ import annotations

from itertools import combinations

import pytest

import pnne_nb as pn
from pnne_nb.errors import BadValueError, GraphError, UnknownNodeError, UnknownTypeError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.edits.gaps import areas


@pytest.fixture
def graph() -> NodeGraph:
    """``x -> conv -> relu -> layer1 -> layer2 -> fc -> y``; the layers show one definition of ``conv -> relu``."""
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 3, 8, 8))
    graph.add("Conv2d", name="conv", out_channels=3, kernel_size=3, padding=1)
    graph.add("ReLU", name="relu", inplace=True)
    graph.add("Conv2d", name="conv2", out_channels=3, kernel_size=3, padding=1)
    graph.add("ReLU", name="relu2")
    graph.add("Linear", name="fc", out_features=2)
    graph.add("Output", name="y")
    graph.connect("x", "conv", "relu", "conv2", "relu2", "fc", "y")
    graph.group(["conv2", "relu2"], name="layer1")
    graph.add("Subgraph", name="layer2", definition="layer1")
    graph.disconnect("layer1", "fc")
    graph.connect("layer1", "layer2", "fc")
    graph.arrange()
    return graph


def wires(graph: NodeGraph) -> set[str]:
    return {f"{edge.source} {edge.target}" for edge in graph.edges}


def test_nodes_are_found_by_pattern_and_type_and_inside_blocks(graph: NodeGraph) -> None:
    assert graph.find(type="ReLU") == ["relu", "layer1.relu2", "layer2.relu2"]
    assert graph.find(type="ReLU", inside=False) == ["relu"]
    assert graph.find("layer*.conv?") == ["layer1.conv2", "layer2.conv2"]
    assert graph.find("nothing") == []
    with pytest.raises(pn.PnneError, match="pattern must be a path in which"):
        graph.find(3)  # type: ignore[arg-type]


def test_all_of_a_type_get_another_one_in_one_step(graph: NodeGraph) -> None:
    before, json = wires(graph), graph.to_json()
    graph.set(graph.find(type="ReLU"), type="GELU")
    assert graph.find(type="GELU") == ["relu", "layer1.relu2", "layer2.relu2"], "a node of both layers is one node"
    assert graph["relu"].position == NodeGraph.from_json(json)["relu"].position
    assert "inplace" not in graph["relu"].properties
    assert wires(graph) == before
    assert graph.undo_label == "Change 2 nodes to GELU"
    graph.undo()
    assert graph.to_json() == json


def test_a_value_is_set_on_many_nodes_or_on_none(graph: NodeGraph) -> None:
    graph.set("layer*.conv2", bias=False)
    graph.set(["conv", "layer1.conv2"], stride=2)
    assert graph["layer2.conv2"].properties["bias"] is False
    assert graph["conv"].properties["stride"] == graph["layer2.conv2"].properties["stride"] == 2
    version = graph.version
    with pytest.raises(BadValueError, match=r"2 things are wrong:\n.*conv\.padding"):
        graph.set("*conv*", padding="wide")
    with pytest.raises(pn.GraphError, match=r"fc.*has no property 'stride'"):
        graph.set(["conv", "fc"], stride=1)
    with pytest.raises(UnknownNodeError, match=r"No node fits 'layr\*'"):
        graph.set("layr*", bias=True)
    assert (graph.version, graph["conv"].properties["stride"]) == (version, 2)


@pytest.mark.parametrize(
    ("node", "type", "why"),
    [
        ("layer1", "ReLU", "layer1 is a block: its inside would be lost"),
        ("x", "ReLU", "x cannot become a ReLU: an Input or Output stays what it is"),
        ("both", "ReLU", "both keeps its type add: ReLU has no port for relu.output → both.other"),
        ("tied", "ReLU", "tied keeps its type Linear: it shares weights with fc"),
    ],
)
def test_a_type_that_a_node_cannot_have_changes_no_node(graph: NodeGraph, node: str, type: str, why: str) -> None:
    graph.add("add", name="both")
    graph.connect("conv.output", "both.input")
    graph.connect("relu.output", "both.other")
    graph.add("Linear", name="tied", shares="fc")
    before = graph.to_json()
    with pytest.raises(GraphError, match=why):
        graph.set(["relu", node], type=type if node != "relu" else "GELU")
    assert graph.to_json() == before


def test_nodes_that_share_a_module_change_their_type_together(graph: NodeGraph) -> None:
    graph.add("ReLU", name="again", shares="relu")
    graph.set(["relu", "again"], type="GELU")
    assert (graph["again"].type, graph["again"].shares) == ("GELU", "relu")
    graph.set(["again", "relu"], type="relu")
    assert (graph["again"].type, graph["again"].shares, graph["relu"].type) == ("relu", None, "relu")
    graph.undo()
    assert graph["again"].shares == "relu"


def test_an_unknown_type_is_named(graph: NodeGraph) -> None:
    with pytest.raises(UnknownTypeError, match="GELU"):
        graph.set("relu", type="Gelu")
    with pytest.raises(UnknownTypeError, match="Dropout"):
        graph.insert_after("relu", "Dropuot")


def test_edges_go_to_the_ports_at_the_same_places(graph: NodeGraph) -> None:
    graph.add("add", name="both")
    graph.connect("conv.output", "both.input")
    graph.connect("relu.output", "both.other")
    graph.set("both", type="cat")
    assert {"conv.output both.tensors_0", "relu.output both.tensors_1"} <= wires(graph)
    graph.set("both", type="sub")
    assert {"conv.output both.input", "relu.output both.other"} <= wires(graph)


def test_a_removed_node_leaves_no_gap_on_request(graph: NodeGraph) -> None:
    graph.remove("relu", reconnect=True)
    assert "conv.output layer1.input" in wires(graph)
    assert graph.undo_label == "Remove relu"
    graph.undo()
    graph.remove("conv", "relu", reconnect=True)
    assert "x.output layer1.input" in wires(graph), "also of nodes in a row"
    graph.undo()
    graph.remove("*.relu2", reconnect=True)
    assert graph.find(type="ReLU") == ["relu"]
    graph.undo()
    graph.add("add", name="both")
    graph.connect("conv.output", "both.input")
    graph.connect("relu.output", "both.other")
    graph.connect("both", graph.add("Output", name="z"))
    before = graph.to_json()
    with pytest.raises(
        GraphError, match=r"The gap of both cannot be closed: 2 outputs feed it \(conv\.output, relu\.output\)"
    ):
        graph.remove("fc", "both", reconnect=True)
    assert graph.to_json() == before


def test_a_node_follows_each_of_many_and_has_room(graph: NodeGraph) -> None:
    before = graph.to_json()
    made = graph.insert_after("*relu*", "Dropout", p=0.1)
    assert [node.path for node in made] == ["dropout1", "layer1.dropout1"]
    assert {"relu.output dropout1.input", "dropout1.output layer1.input"} <= wires(graph)
    assert "relu.output layer1.input" not in wires(graph)
    assert graph["layer2.dropout1"].properties["p"] == 0.1
    with graph.reading():
        cards = areas(graph._content, graph._content.graphs[""], across=False)
    assert not [(one, other) for one, other in combinations(cards, 2) if cards[one].covers(cards[other])]
    graph.undo()
    assert graph.to_json() == before
    with pytest.raises(GraphError, match="No Dropout can follow y: y has no output"):
        graph.insert_after(["relu", "y"], "Dropout")
    assert graph.to_json() == before
