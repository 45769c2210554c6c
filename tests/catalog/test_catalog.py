"""The catalogue as a whole: a mapping, with every default a legal value."""

from __future__ import annotations

import gc

import pytest

import pnne_nb as pn
from pnne_nb.catalog import specs
from pnne_nb.catalog.tables import overrides
from pnne_nb.graph.schema.property_types import OptionalType, check
from pnne_nb.graph.schema.spec import Required
from pnne_nb.graph.schema.structural import STRUCTURAL
from pnne_nb.graph.schema.values import to_json


def test_catalog_is_a_mapping() -> None:
    assert pn.catalog["Conv2d"].category == "Convolution"
    assert "Conv2d" in pn.catalog
    assert "Conv2dd" not in pn.catalog
    assert pn.catalog.get("Conv2dd") is None
    assert len(pn.catalog) == len(list(pn.catalog)) >= 660
    with pytest.raises(KeyError):
        pn.catalog["Conv2dd"]


def test_structural_types_are_there_too() -> None:
    assert {spec.type for spec in STRUCTURAL} <= set(pn.catalog)


def test_names_are_unique_and_can_stand_in_source() -> None:
    names = [spec.type for spec in specs()]

    assert len(names) == len(set(names))
    assert all(name.isidentifier() for name in names)


def test_every_default_is_a_constant_that_its_type_accepts() -> None:
    for spec in specs():
        for prop in spec.properties:
            if not isinstance(prop.default, Required):
                assert check(prop.type, prop.default) == prop.default, f"{spec.type}.{prop.name}"
                to_json(prop.default)


def test_ports_and_properties_have_different_names_unless_one_argument_is_both() -> None:
    for spec in specs():
        inputs, outputs = [port.name for port in spec.inputs], [port.name for port in spec.outputs]
        properties = [prop.name for prop in spec.properties]
        assert all(len(names) == len(set(names)) for names in (inputs, outputs, properties)), spec.type
        for prop in spec.properties:
            if prop.role == "call" and prop.name in inputs:
                assert spec.positional.count(prop.name) <= 1


def test_types_are_simple() -> None:
    for spec in specs():
        for prop in spec.properties:
            assert not (isinstance(prop.type, OptionalType) and isinstance(prop.type.item, OptionalType))


def test_conditional_outputs_name_a_property() -> None:
    conditional = [(spec, port) for spec in specs() for port in spec.outputs if port.when]

    assert len(conditional) > 15
    assert all(spec.property_named(port.when) is not None for spec, port in conditional)


def test_categories_come_in_the_order_of_the_palette() -> None:
    seen = dict.fromkeys(spec.category for spec in specs())

    assert list(seen) == [category for category in overrides.CATEGORY_ORDER if category in seen]


def test_collecting_garbage_goes_on_afterwards() -> None:
    specs()

    assert gc.isenabled()
