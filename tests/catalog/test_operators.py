"""Items, attributes, tuples and Python's operators."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch

from pnne_nb.catalog import operators
from tests.catalog.calling import call

SPECS = {spec.type: spec for spec in operators.specs()}


def _run(name: str, values: dict[str, object] | None = None, **inputs: Any) -> Any:
    return call(SPECS[name], SPECS[name].torch, values or {}, inputs)


def test_items_by_number_slice_and_tuple() -> None:
    x = torch.arange(12).reshape(3, 4)

    assert torch.equal(_run("getitem", {"index": 1}, input=x), x[1])
    assert torch.equal(_run("getitem", {"index": (slice(None), slice(0, 2), None)}, input=x), x[:, :2, None])
    assert _run("getitem", input=(5, 6), index=1) == 6


def test_attributes_from_a_closed_set() -> None:
    assert _run("getattr", {"name": "shape"}, input=torch.ones(2, 3)) == (2, 3)
    with pytest.raises(ValueError, match="one of 'shape', 'dtype'"):
        _run("getattr", {"name": "__class__"}, input=torch.ones(2))


def test_an_item_is_assigned_in_place() -> None:
    x = torch.zeros(2, 3)

    assert _run("setitem", {"index": (slice(None), 0), "value": 1.5}, input=x) is x
    assert x.sum() == 3


def test_a_value_for_each_mode() -> None:
    assert _run("choose", train=1, eval=2) == 1
    assert operators.choose(1, 2, training=False) == 2


@pytest.mark.parametrize(("name", "result"), [("sqrt", 1.5811388300841898), ("floor", 2), ("ceil", 3), ("trunc", 2)])
def test_numbers_of_sizes(name: str, result: float) -> None:
    assert _run(f"math_{name}", a=2.5) == result


def test_tuples_lists_and_slices_are_put_together() -> None:
    assert _run("tuple", items=[2, 3]) == (2, 3)
    assert _run("list", items=[2, 3]) == [2, 3]
    assert _run("slice", {"start": None, "step": None}, stop=4) == slice(None, 4, None)


@pytest.mark.parametrize("name", [name for name in SPECS if name.startswith("operator_")])
def test_operators_work_on_numbers(name: str) -> None:
    spec = SPECS[name]
    inputs = {port.name: torch.ones(2, 2, dtype=torch.long) if "matmul" in name else 3 for port in spec.inputs}
    function = getattr(operator, spec.target.removeprefix("operator."))

    assert str(call(spec, spec.torch, {}, inputs)) == str(function(*inputs.values()))
    assert spec.torch is function
    assert spec.doc
    assert all(prop.doc for prop in spec.properties)
