"""Snapshots of nodes: they refuse changes, and say what to do instead."""

from __future__ import annotations

import pytest

from pnne_nb.graph.model.node import Node, is_uncalled, split_port, whole_of
from pnne_nb.graph.model.origin import Origin


def test_a_node_is_read_only_and_names_the_call_that_changes_it() -> None:
    node = Node("fc", "Linear", {"bias": False}, path="block.fc")
    with pytest.raises(AttributeError, match=r'A node is read only: graph\.rename\("block\.fc", .new.\) changes'):
        node.name = "new"  # type: ignore[misc]  # which is the point
    with pytest.raises(AttributeError, match=r'A node is read only: graph\.set\("block\.fc", bias=True\) changes'):
        node.bias = True  # type: ignore[attr-defined]  # which is the point
    with pytest.raises(AttributeError, match=r'A property is read by node\.properties\["bias"\]'):
        _ = node.bias
    with pytest.raises(AttributeError, match=r"A node has no attribute 'weight'"):
        _ = node.weight
    with pytest.raises(TypeError, match=r'graph\.connect\("block\.fc", "act"\)'):
        _ = node >> "act"
    assert str(node) == "block.fc"


@pytest.mark.parametrize(
    ("type", "properties", "definition", "box"),
    [
        ("Subgraph", {"definition": "inner"}, "inner", False),
        ("Module", {"definition": "inner"}, "inner", True),
        ("Module", {"definition": None}, None, False),
        ("Subgraph", {"definition": 3}, None, False),  # a damaged file
        ("Linear", {"definition": "inner"}, None, False),
    ],
)
def test_only_blocks_and_modules_show_a_definition(
    type: str, properties: dict[str, str | int | None], definition: str | None, box: bool
) -> None:
    node = Node("n", type, properties)
    assert node.definition == definition
    assert node.is_box == box


def test_the_whole_model_is_a_module_held_under_no_name() -> None:
    origin = Origin("opaque", held="")
    nodes = {"x": Node("x", "Input"), "net": Node("net", "Module", origin=origin)}
    assert whole_of(nodes) == "net"
    shared = {"net": Node("net", "Module", {"shares": "other"}, origin=origin)}
    assert whole_of(shared) == ""
    assert whole_of({"net": Node("net", "Module", origin=Origin("opaque", held="net"))}) == ""


def test_a_layer_that_was_never_called_need_not_be_connected() -> None:
    assert is_uncalled(Node("a", "ReLU", origin=Origin("equal", called=False)))
    assert not is_uncalled(Node("a", "ReLU", origin=Origin("equal")))
    assert not is_uncalled(Node("a", "ReLU"))


def test_a_port_is_what_follows_the_first_dot() -> None:
    assert tuple(split_port("conv1.output")) == ("conv1", "output")
    assert tuple(split_port("conv1")) == ("conv1", "")
