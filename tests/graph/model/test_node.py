"""Snapshots of nodes: they refuse changes, and say what to do instead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from pnne_nb.errors import BadValueError, GraphFileError, ProtocolError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node, is_uncalled, split_port, whole_of
from pnne_nb.graph.model.ops import AddNode, SetOrigin
from pnne_nb.graph.model.origin import Origin
from pnne_nb.graph.schema.values import DTYPES
from pnne_nb.protocol.codec import decode_request
from tests.graph.types import TYPES


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


FULL = {
    "proof": "opaque", "reason": "its forward depends on data", "member": 3, "held": "layers.0",
    "assumes": ["x.shape[1] is 3"], "omitted": ["mask"], "variables": {"output": "h"}, "ties": {"weight": "embed.weight"},
    "frozen": ["", "0"],
    "dtype": "float64", "twice": True, "values": "absent", "called": False, "whole": True,
    "sizes": [["N", 5], None],
}  # fmt: skip
"""Every field at another value than its default, in the order and form of a file."""

BAD: list[tuple[object, str]] = [
    ("equal", r"origin: Expected `object \| null`, got `str`"),
    ({}, r"origin: Object missing required field `proof`"),
    ({"proof": "sealed"}, r"origin.proof: Invalid enum value 'sealed'"),
    ({"proof": "equal", "member": "0"}, r"origin.member: Expected `int \| null`, got `str`"),
    ({"proof": "equal", "ties": {"weight": 3}}, r"origin.ties\[...\]: Expected `str`, got `int`"),
    ({"proof": "equal", "frozen": "0"}, r"origin.frozen: Expected `array`, got `str`"),
    ({"proof": "equal", "dtype": "float31"}, r"origin.dtype: Invalid enum value 'float31'"),
    ({"proof": "equal", "checked": True}, r"origin: Object contains unknown field `checked`"),
]


def file_with(origin: object) -> str:
    graph = NodeGraph("net", types=TYPES)
    graph.add("ReLU", name="act")
    state = json.loads(graph.to_json())
    state["graphs"][""]["nodes"][0]["origin"] = origin
    return json.dumps(state)


def origins() -> st.SearchStrategy[Origin]:
    words = st.text("ab.", max_size=5)
    return st.builds(
        Origin,
        proof=st.sampled_from(("equal", "edited", "opaque")),
        reason=words,
        member=st.none() | st.integers(0, 9),
        held=st.none() | words,
        variables=st.dictionaries(words, words, max_size=2),
        frozen=st.lists(words, max_size=2).map(tuple),
        dtype=st.none() | st.sampled_from(DTYPES),
        initial=st.sampled_from((None, "absent")),
        called=st.booleans(),
    )


def test_every_field_is_kept_in_a_file_in_its_order() -> None:
    assert set(FULL) == {field.encode_name for field in msgspec.structs.fields(Origin)}
    graph = NodeGraph.from_json(file_with(FULL), types=TYPES)
    line = next(line for line in graph.to_json().splitlines() if '"origin"' in line)
    assert f'"origin": {json.dumps(FULL)}' in line
    assert NodeGraph.from_json(graph.to_json(), types=TYPES) == graph


@given(origins())
def test_a_file_gives_back_what_was_written(origin: Origin) -> None:
    graph = NodeGraph("net", types=TYPES)
    graph.apply([AddNode("act", "ReLU", origin=origin)])
    assert NodeGraph.from_json(graph.to_json(), types=TYPES)["act"].origin == origin


@given(origins())
def test_it_reads_as_a_mapping_of_what_the_file_holds(origin: Origin) -> None:
    held: Any = json.loads(msgspec.json.encode(origin))
    assert isinstance(origin, Mapping)
    assert json.loads(json.dumps(dict(origin))) == held
    assert (len(origin), list(origin)) == (len(held), list(held))
    assert origin["proof"] == origin.proof
    assert origin.get("reason", "") == origin.reason
    assert "nothing" not in origin
    with pytest.raises(KeyError):
        origin["nothing"]


def test_it_equals_an_equal_mapping() -> None:
    assert Origin("equal", member=0) == {"proof": "equal", "member": 0}
    assert Origin("equal") != Origin("edited")
    assert Origin("equal") != {"proof": "equal", "member": 0}


@pytest.mark.parametrize(("origin", "message"), BAD)
def test_a_bad_origin_in_a_file_is_refused_with_its_place(origin: object, message: str) -> None:
    with pytest.raises(GraphFileError, match=r'at \$.graphs\[""\].nodes\[0\].' + message):
        NodeGraph.from_json(file_with(origin), types=TYPES)


@pytest.mark.parametrize(("origin", "message"), BAD)
def test_a_bad_origin_in_a_message_is_refused_with_its_place(origin: object, message: str) -> None:
    for op in (
        {"op": "addNode", "name": "a", "type": "ReLU", "origin": origin},
        {"op": "setOrigin", "name": "a", "origin": origin},
    ):
        with pytest.raises(ProtocolError, match=r"at \$.ops\[0\]." + message):
            decode_request({"message": "edit", "id": 1, "client": "view", "base": 0, "ops": [op]})


def test_an_origin_that_is_none_is_refused_as_an_op_and_nothing_changes() -> None:
    graph = NodeGraph("net", types=TYPES)
    graph.add("ReLU", name="act")
    version, odd = graph.version, {"proof": "equal"}
    for op in (SetOrigin("act", odd), AddNode("more", "ReLU", origin=odd)):  # type: ignore[arg-type]  # that is the point
        with pytest.raises(BadValueError, match=r"\.origin cannot be .*: it is an Origin, or None"):
            graph.apply([op])
    assert graph.version == version


def test_what_a_node_is_follows_from_its_origin() -> None:
    called, uncalled = (
        Node("a", "ReLU", origin=Origin("equal")),
        Node("b", "ReLU", origin=Origin("equal", called=False)),
    )
    assert [is_uncalled(node) for node in (called, uncalled, Node("c", "ReLU"))] == [False, True, False]
    nodes = {"x": Node("x", "Input"), "net": Node("net", "Module", origin=Origin("opaque", "why", held=""))}
    assert whole_of(nodes) == "net"
    assert whole_of({"x": nodes["x"], "net": Node("net", "Module", origin=Origin("opaque", held="net"))}) == ""
