"""What a spec says, in order and by name; which kinds of ports fit, as the browser is told too."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from pnne_nb.catalog import specs
from pnne_nb.errors import UnknownPortError, UnknownPropertyError
from pnne_nb.graph.schema.registry import Registry
from pnne_nb.graph.schema.spec import PortKind, Ports, Properties, kinds_fit
from pnne_nb.graph.schema.structural import STRUCTURAL
from tests.graph.types import TYPES

CASES = Path(__file__).parents[2] / "cases" / "kinds.json"


def test_kinds_fit_as_the_shared_case_says() -> None:
    fits = {(source, target) for source, target in json.loads(CASES.read_text(encoding="utf-8"))["fits"]}
    kinds = get_args(PortKind)
    assert {pair for pair in itertools.product(kinds, kinds) if kinds_fit(*pair)} == fits


def test_a_spec_reads_like_a_signature() -> None:
    assert repr(TYPES["MaxPool2d"]) == "NodeSpec(MaxPool2d: input → output, indices; return_indices=False)"
    assert repr(TYPES["Output"]) == "NodeSpec(Output: input → ())"
    shown = TYPES["Conv2d"]._repr_html_()
    assert "<b>Conv2d</b>" in shown
    assert ">kernel_size</td>" in shown
    assert "a tuple of 2 values, each a whole number ≥ 1" in shown


def test_properties_and_ports_are_found_by_place_and_by_name() -> None:
    spec = TYPES["MaxPool2d"]
    assert isinstance(spec.properties, Properties)
    assert isinstance(spec.outputs, Ports)
    (prop,) = spec.properties
    assert spec.properties[0] is spec.properties["return_indices"] is spec.properties.get("return_indices") is prop
    assert spec.outputs["indices"] is spec.outputs[1]
    assert spec.outputs[:1] == (spec.outputs["output"],)
    here: object = "indices"
    assert here in spec.outputs
    assert here not in spec.properties
    assert spec.outputs[1] in spec.outputs
    assert spec.properties.get("stride") is None
    assert dict(spec.outputs.items()) == dict(zip(spec.outputs.keys(), spec.outputs.values(), strict=True))
    assert spec.outputs.keys() == ("output", "indices")


def test_an_unknown_name_is_a_key_error_with_near_names() -> None:
    spec = TYPES["Conv2d"]
    assert isinstance(spec.properties, Properties)
    assert isinstance(spec.inputs, Ports)
    with pytest.raises(
        UnknownPropertyError, match=r"no property 'strid'. Did you mean 'stride'\? They are in_channels"
    ):
        spec.properties["strid"]
    with pytest.raises(UnknownPortError, match=r"There is no port 'inputs'. Did you mean 'input'\? They are input\."):
        spec.inputs["inputs"]
    with pytest.raises(KeyError):
        spec.inputs["x"]


def test_a_spec_stays_plain_data() -> None:
    spec = TYPES["Conv2d"]
    assert json.loads(msgspec.json.encode(spec.inputs)) == [{"name": "input"}]
    assert msgspec.structs.replace(spec, properties=spec.properties[:1]).properties.__class__ is Properties
    assert spec == msgspec.structs.replace(spec)


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
