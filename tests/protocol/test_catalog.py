"""The catalogue as data."""

from __future__ import annotations

import json

import msgspec
import pytest

import pnne_nb as pn
from pnne_nb.graph.registry import registry
from pnne_nb.protocol.catalog import catalog_event, node_type_state
from pnne_nb.protocol.codec import encode_event
from tests.graph.types import TYPES


def test_a_type_as_the_browser_needs_it() -> None:
    state = json.loads(msgspec.json.encode(node_type_state(TYPES["Conv2d"])))
    assert state["properties"][2] == {
        "name": "kernel_size",
        "type": {"type": "tuple", "item": {"type": "int", "minimum": 1}, "length": 2, "scalar": True},
        "required": True,
    }
    assert state["properties"][3]["default"] == 1
    assert state["inputs"] == [{"name": "input"}]


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
        assert (entry.type, entry.inputs, entry.outputs) == (state.type, state.inputs, state.outputs)
    apart = msgspec.json.encode([node_type_state(spec) for spec in registry.values()])
    assert len(msgspec.json.encode(catalog)) < 0.6 * len(apart)


@pytest.mark.parametrize("name", ["Conv2d", "LSTM", "cat"])
def test_torch_types_travel(name: str) -> None:
    assert name in pn.catalog
    message = encode_event(catalog_event(registry.values()))
    types = {each["type"] for each in json.loads(json.dumps(message))["types"]}
    assert name in types
