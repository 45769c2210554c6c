"""Sizes read off the inputs: the rule gives what torch itself needs."""

from __future__ import annotations

import pytest

from pnne_nb.catalog import layers
from pnne_nb.catalog.tables.overrides import AUTOMATIC
from pnne_nb.graph.schema.property_types import check
from tests.catalog.calling import build, call
from tests.catalog.layer_samples import sample

SPECS = {spec.type: spec for spec in layers.specs()}
THERE = [key for key in AUTOMATIC if key[0] in SPECS]  # torch 2.11 has one layer less


@pytest.mark.parametrize(("name", "prop"), THERE)
def test_rule_gives_a_size_that_fits(name: str, prop: str) -> None:
    spec = SPECS[name]
    given = sample(name)
    values = {**given.values, prop: "auto"}

    module = build(spec, values, [given.inputs.get(port.name) for port in spec.inputs])

    call(spec, module, values, given.inputs)


@pytest.mark.parametrize(("name", "prop"), THERE)
def test_property_accepts_auto_and_numbers(name: str, prop: str) -> None:
    declared = SPECS[name].property_named(prop)
    assert declared is not None

    assert check(declared.type, "auto") == "auto"
    assert check(declared.type, 7) == 7
    assert not declared.required
    with pytest.raises(ValueError, match=r"a whole number ≥ 1.*'auto'"):
        check(declared.type, "automatic")
    with pytest.raises(ValueError, match="a whole number ≥ 1"):
        check(declared.type, 0)


def test_nothing_else_accepts_auto() -> None:
    for spec in SPECS.values():
        for prop in spec.properties:
            if prop.role == "init" and (spec.type, prop.name) not in AUTOMATIC:
                assert prop.default != "auto"


def test_torchs_default_stays_where_there_is_one() -> None:
    defaults = {key: SPECS[key[0]].property_named(key[1]) for key in THERE}
    given = {key for key, prop in defaults.items() if prop is not None and prop.default != "auto"}

    assert given == {
        ("PReLU", "num_parameters"),
        ("MultiheadAttention", "kdim"),
        ("MultiheadAttention", "vdim"),
        ("Transformer", "d_model"),
    }
