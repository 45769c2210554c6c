"""Ports and properties by place and by name."""

from __future__ import annotations

from typing import Any

import pytest

from pnne_nb.catalog import specs
from pnne_nb.errors import UnknownPropertyError
from pnne_nb.graph.schema.registry import Registry
from pnne_nb.graph.schema.structural import STRUCTURAL

REGISTRY = Registry((*STRUCTURAL, *specs()))


def named(type: str) -> Any:
    """The properties of a type, which are a tuple and a mapping at once."""
    return REGISTRY[type].properties


def test_items_are_found_by_name_and_by_place() -> None:
    properties = named("Conv2d")
    for place, (name, item) in enumerate(properties.items()):
        assert properties[place] is properties[name] is properties.get(name) is item
        assert name in properties
        assert item in properties
    assert properties.keys() == tuple(item.name for item in properties.values())
    assert properties[:2] == properties.values()[:2]


def test_an_unknown_name_is_a_key_error_that_lists_the_others() -> None:
    properties = named("Conv2d")
    assert "strid" not in properties
    assert properties.get("strid") is None
    assert properties.get("strid", 3) == 3
    with pytest.raises(UnknownPropertyError, match=r"no property 'strid'.*stride.*They are in_channels, out_channels"):
        properties["strid"]
    with pytest.raises(KeyError):
        properties["strid"]
    with pytest.raises(IndexError):
        properties[1000]
