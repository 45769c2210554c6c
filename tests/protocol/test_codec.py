"""Requests, events and the catalogue, there and back."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

import pnne_nb as pn
from pnne_nb.errors import Diagnostic, ProtocolError
from pnne_nb.graph.model.ops import AddNode, MoveNode, SetProperty
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.values import TorchConstant
from pnne_nb.protocol.codec import asked_by, catalog_event, decode_request, encode_event, encode_ops, node_type_state
from pnne_nb.protocol.messages import Committed, Edit, HistoryState, Rejected
from tests.graph.types import TYPES


def edit(*ops: dict[str, Any]) -> dict[str, Any]:
    return {"message": "edit", "id": 1, "client": "view", "base": 3, "ops": list(ops)}


def test_an_edit_arrives_with_python_constants() -> None:
    request = decode_request(
        edit(
            {
                "op": "addNode",
                "name": "c",
                "type": "Conv2d",
                "properties": {"kernel_size": [3, 3], "d": {"$torch": "int8"}},
            },
            {"op": "setProperty", "node": "c", "property": "p", "value": {"$list": [1, {"$float": "inf"}]}},
            {"op": "moveNode", "name": "c", "position": [1, 2.5]},
        )
    )
    assert isinstance(request, Edit)
    assert request.ops == (
        AddNode("c", "Conv2d", {"kernel_size": (3, 3), "d": TorchConstant("int8")}),
        SetProperty("c", "p", [1, float("inf")]),
        MoveNode("c", (1.0, 2.5)),
    )
    assert (request.id, request.client, request.base, request.label) == (1, "view", 3, "")


def test_a_commit_leaves_as_json() -> None:
    ops = (AddNode("c", "Constant", {"value": (1, [2])}), SetProperty("c", "value", {"a": ...}))
    message = encode_event(Committed(4, ops, "Add c", HistoryState("Add c"), "view", 1))
    assert json.loads(json.dumps(message)) == {
        "message": "committed", "version": 4, "label": "Add c", "client": "view", "id": 1,
        "history": {"undo": "Add c", "redo": None},
        "ops": [
            {"op": "addNode", "name": "c", "type": "Constant", "properties": {"value": [1, {"$list": [2]}]}},
            {"op": "setProperty", "node": "c", "property": "value", "value": {"$dict": [["a", {"$ellipsis": True}]]}},
        ],
    }  # fmt: skip
    again = decode_request({**message, "message": "edit", "base": 0})
    assert isinstance(again, Edit)
    assert again.ops == ops
    assert encode_ops(again.ops) != ops


def test_a_rejection_says_everything() -> None:
    message = encode_event(Rejected(1, "view", 4, "No.", (Diagnostic("bad-value", "No.", node="c"),)))
    assert message["diagnostics"][0]["node"] == "c"
    assert message["error"] == "No."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"at \$: Expected `object`, got `null`"),
        ({}, r"at \$: Object missing required field `message`"),
        ({"message": "destroy"}, r"at \$.message: Invalid value 'destroy'"),
        ({"message": "undo", "id": "1", "client": "v"}, r"at \$.id: Expected `int`, got `str`"),
        (edit({"op": "addNode", "name": "c"}), r"at \$.ops\[0\]: Object missing required field `type`"),
        (edit({"op": "moveNode", "name": "c", "position": [1]}), r"at \$.ops\[0\].position: Expected `array`"),
        (edit(), r"at \$.ops: an edit has 1 to 100000 ops, not 0"),
        (
            edit({"op": "setProperty", "node": "c", "property": "p", "value": {"$code": "1"}}),
            r"at \$.ops\[0\].value: '\$code' with '1' is not the JSON form of a constant",
        ),
        (
            edit({"op": "addNode", "name": "c", "type": "C", "properties": {"p": {}}}),
            r"at \$.ops\[0\].properties.p: '\{\}' is not the JSON form",
        ),
        (
            edit({"op": "addNode", "name": "c", "type": "C", "origin": json.loads("[" * 40 + "]" * 40)}),
            r"at \$.ops\[0\].origin: Expected `object \| null`, got `array`",
        ),
    ],
)
def test_a_bad_message_is_refused_with_its_place(content: object, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        decode_request(content)


@pytest.mark.parametrize(
    ("content", "asked"),
    [
        (None, (None, None)),
        ({"id": 3, "client": "view"}, (3, "view")),
        ({"id": True, "client": 3}, (None, None)),
        ([], (None, None)),
    ],
)
def test_who_asked_is_read_as_far_as_it_goes(content: object, asked: tuple[int | None, str | None]) -> None:
    assert asked_by(content) == asked


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("op", "id", "ops", "$list", "name")), inner)
    ),
    max_leaves=8,
)


@given(json_values, st.sampled_from(("edit", "undo", "sync", "arrange", "group", "x")))
def test_nothing_else_is_raised(value: object, kind: str) -> None:
    for content in (value, {"message": kind, "id": 1, "client": "v", "base": 0, "ops": value, "nodes": value}):
        try:
            request = decode_request(content)
        except ProtocolError:
            continue
        assert (request.id, request.client) == (1, "v")


def test_a_type_as_the_browser_needs_it() -> None:
    state = json.loads(msgspec.json.encode(node_type_state(TYPES["Conv2d"])))
    assert state["properties"][2] == {
        "name": "kernel_size",
        "type": {"type": "tuple", "item": {"type": "int", "minimum": 1}, "length": 2, "scalar": True},
        "required": True,
    }
    assert state["properties"][3]["default"] == 1
    assert state["inputs"] == [{"name": "input"}]
    assert state["category"]["name"] == TYPES["Conv2d"].category
    assert set(state["category"]) == {"name", "hue", "chroma", "icon"}


def test_the_key_is_that_of_the_content() -> None:
    specs = list(TYPES.values())
    assert catalog_event(specs).key == catalog_event(specs, 1, "view").key
    assert catalog_event(specs).key != catalog_event(specs[:-1]).key


def test_a_property_that_many_types_have_travels_once() -> None:
    catalog = catalog_event(registry.values())
    assert len(set(map(msgspec.json.encode, catalog.properties))) == len(catalog.properties)
    for spec, entry in zip(registry.values(), catalog.types, strict=True):
        state = node_type_state(spec)
        assert tuple(catalog.properties[place] for place in entry.properties) == state.properties
        assert catalog.categories[entry.category] == state.category
        assert (entry.type, entry.inputs, entry.outputs) == (state.type, state.inputs, state.outputs)
    apart = msgspec.json.encode([node_type_state(spec) for spec in registry.values()])
    assert len(msgspec.json.encode(catalog)) < 0.6 * len(apart)


@pytest.mark.parametrize("name", ["Conv2d", "LSTM", "cat"])
def test_torch_types_travel(name: str) -> None:
    assert name in pn.catalog
    message = encode_event(catalog_event(registry.values()))
    types = {each["type"] for each in json.loads(json.dumps(message))["types"]}
    assert name in types
