"""Property types: the cases that the browser's forms replay too, and what only Python can be given."""

from __future__ import annotations

import enum
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from pnne_nb.graph.schema.property_types import (
    BoolType,
    ConstantType,
    DeviceType,
    DtypeType,
    EnumType,
    FloatType,
    IntType,
    NumberType,
    OptionalType,
    PropertyType,
    ShapeType,
    StringType,
    TensorType,
    TupleType,
    check,
    describe,
)
from pnne_nb.graph.schema.values import from_json, to_json

CASES = [
    pytest.param(case, id=f"{path.stem}-{place}")
    for path in sorted((Path(__file__).parents[2] / "cases" / "values").glob("*.json"))
    for place, case in enumerate(json.loads(path.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("case", CASES)
def test_case(case: dict[str, Any]) -> None:
    kind: PropertyType = msgspec.convert(case["type"], PropertyType)
    value = from_json(case["value"])
    if "accepted" in case:
        assert to_json(check(kind, value)) == case["accepted"]
    else:
        with pytest.raises(ValueError, match=r"\w") as caught:
            check(kind, value)
        assert str(caught.value) == case["refused"]


class Mode(enum.StrEnum):
    ZEROS = "zeros"


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        (IntType(), np.int64(3), 3),
        (IntType(), 3.0, 3),
        (IntType(), np.float32(3.0), 3),
        (ShapeType(), ("N", 3.0), ("N", 3)),
        (TensorType(), 2, 2.0),
        (TensorType(), [1, 2], (1.0, 2.0)),
        (TensorType(), np.eye(2), ((1.0, 0.0), (0.0, 1.0))),
        (TensorType(), torch.tensor([0.5, 2]), (0.5, 2.0)),
        (TensorType(), torch.tensor(0.5), 0.5),
        (TensorType(), torch.tensor([0.1, -2.7, float("inf")]), (0.1, -2.7, math.inf)),
        (TensorType(), np.array([[0.1]], dtype=np.float16), ((0.1,),)),
        (FloatType(), np.float32(0.1), 0.1),
        (NumberType(), np.float32(0.1), 0.1),
        (FloatType(), np.float32(0.5), 0.5),
        (FloatType(), np.float64(0.5), 0.5),
        (NumberType(), np.float64(2.0), 2.0),
        (NumberType(), np.int32(2), 2),
        (EnumType(("zeros",)), Mode.ZEROS, "zeros"),
        (StringType(), Mode.ZEROS, "zeros"),
        (ConstantType(), Mode.ZEROS, "zeros"),
        (ConstantType(), np.float64(2.0), 2.0),
        (DtypeType(), torch.float16, "float16"),
        (ShapeType(), torch.Size((2, 3)), (2, 3)),
        (ShapeType(), (np.int64(2), "N"), (2, "N")),
        (ShapeType(), np.array([2, 3]), (2, 3)),
        (TupleType(IntType(), 2, scalar=True), torch.tensor([3, 5]), (3, 5)),
        (TupleType(IntType(), 2, scalar=True), torch.tensor(3), 3),
        (IntType(), torch.tensor(3), 3),
        (BoolType(), np.bool_(1), True),
        (OptionalType(FloatType()), torch.tensor(0.1), 0.1),
        (DtypeType(), np.float32, "float32"),
        (DtypeType(), np.dtype("int64"), "int64"),
        (DtypeType(), bool, "bool"),
        (DeviceType(), torch.device("cuda", 1), "cuda:1"),
    ],
)
def test_values_are_stored_as_plain_python(kind: PropertyType, given: object, stored: object) -> None:
    result = check(kind, given)
    assert result == stored
    assert type(result) is type(stored)
    if isinstance(result, tuple) and isinstance(stored, tuple):
        assert list(map(type, result)) == list(map(type, stored))


@pytest.mark.parametrize("kind", [IntType(), FloatType(), DtypeType(), DeviceType(), ShapeType(), ConstantType()])
def test_a_number_that_python_cannot_write_is_refused_in_words(kind: PropertyType) -> None:
    with pytest.raises(ValueError, match=describe(kind)[:10]):
        check(kind, 10**5000)


def test_a_stored_list_is_a_copy() -> None:
    given = [1, [2]]
    stored = check(ConstantType(), given)
    given.append(3)
    assert stored == [1, [2]]


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (FloatType(), 10**400, "a number"),
        (IntType(), np.bool_(1), "a whole number"),
        (IntType(), torch.tensor(3.5), "a whole number"),
        (BoolType(), torch.tensor([True]), "True or False"),
        (DtypeType(), str, "the name of a dtype"),
        (DeviceType(), 0, "a device"),
        (StringType(), np.array(["a"]), "a text"),
        (StringType(), "\ud800", "a text"),
        (ConstantType(), object(), "a constant"),
        (ConstantType(), {1, 2}, "a constant"),
        (ConstantType(), ["\udfff"], "a constant"),
    ],
)
def test_what_cannot_be_stored_is_refused(kind: PropertyType, value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check(kind, value)


def test_a_list_that_holds_itself_is_refused() -> None:
    knot: list[object] = []
    knot.append(knot)
    with pytest.raises(ValueError, match="a constant"):
        check(ConstantType(), knot)


def test_nan_is_no_number_of_a_range() -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        check(FloatType(0, 1), math.nan)
