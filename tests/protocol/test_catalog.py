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


@pytest.mark.parametrize("name", ["Conv2d", "LSTM", "cat"])
def test_torch_types_travel(name: str) -> None:
    assert name in pn.catalog
    message = encode_event(catalog_event(registry.values()))
    types = {each["type"] for each in json.loads(json.dumps(message))["types"]}
    assert name in types
