"""Constants: every one comes back from its JSON form, and nothing else gets in."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from pnne_nb.graph.schema.values import (
    DTYPES,
    MAX_BITS,
    MAX_DEPTH,
    Array,
    TorchConstant,
    Value,
    decimals,
    from_json,
    to_json,
)

_WHOLE = st.integers(-(2**70), 2**70)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_KEYS = st.one_of(st.none(), st.booleans(), _WHOLE, _TEXT)
_PLAIN = st.one_of(
    _KEYS,
    st.floats(),
    st.complex_numbers(),
    st.just(...),
    st.sampled_from(DTYPES).map(TorchConstant),
    st.builds(slice, st.none() | _WHOLE, st.none() | _WHOLE, st.none() | _WHOLE),
)
VALUES = st.recursive(
    _PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.lists(inner, max_size=3).map(tuple), st.dictionaries(_KEYS, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_a_constant_comes_back_from_json(value: Value) -> None:
    text = json.dumps(to_json(value), allow_nan=False)
    assert repr(from_json(json.loads(text))) == repr(value)  # 1, 1.0 and True are different


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"x", [object()], "\ud800", 1 << (MAX_BITS + 1), (1, {2: object()})]
)
def test_nothing_else_is_stored(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be stored in a graph"):
        to_json(value)


@pytest.mark.parametrize(
    "data",
    [
        {"$gone": 1}, {"$list": 3}, {"$float": "1.0"}, {"$torch": "Tensor"}, {"$slice": [1]}, {"$complex": ["a", 1]},
        {"$dict": [[1]]}, {"$dict": [[{"$list": []}, 1]]}, {}, {"$list": [], "$dict": []}, object(),
    ],
)  # fmt: skip
def test_what_is_no_json_form_is_refused(data: object) -> None:
    with pytest.raises(
        ValueError, match=r"not the JSON form|needs \[key, value\]|cannot be a dictionary key|not a dtype"
    ):
        from_json(data)


def test_depth_is_bounded() -> None:
    data: object = 1
    for _ in range(MAX_DEPTH):
        data = [data]
    from_json(data)
    with pytest.raises(ValueError, match=rf"nested more than {MAX_DEPTH} deep"):
        from_json([data])


def test_a_subclass_is_stored_as_the_plain_value() -> None:
    class Text(str):
        __slots__ = ()

    assert type(to_json(Text("a"))) is str
    assert math.isinf(float(from_json({"$float": "-inf"})))  # type: ignore[arg-type]  # a float


def _digits(number: float) -> int:
    return len(Decimal(repr(number)).normalize().as_tuple().digits)


@given(st.floats(width=32, allow_nan=False))
@example(1.401298464324817e-45)
@example(3.4028234663852886e38)
@example(999999986991104.0)  # 1e15, whose text is longer
def test_of_float32_the_shortest_that_reads_back_equal(number: float) -> None:
    (short,) = _listed(torch.tensor([number]))
    assert torch.tensor(short).item() == number
    assert _digits(short) <= _digits(number)
    if abs(number) > 1e-37:  # below, NumPy finds still shorter ones: such numbers have fewer bits
        assert short == float(str(np.float32(number)))


@given(st.floats(width=16, allow_nan=False))
def test_of_float16_likewise(number: float) -> None:
    (short,) = _listed(np.array([number], dtype=np.float16))
    assert np.float16(short) == number
    assert len(repr(short)) <= len(repr(number))


@pytest.mark.parametrize("kind", [torch.float64, torch.int64, torch.bool, torch.complex64])
def test_other_kinds_are_as_they_are(kind: torch.dtype) -> None:
    array = torch.tensor([[1, 0], [1, 1]]).to(kind) * (torch.tensor(0.1, dtype=kind) if kind is torch.float64 else True)
    assert _listed(array) == array.tolist()


def test_nested_and_not_a_number() -> None:
    assert str(_listed(torch.tensor([[0.1], [float("nan")]]))) == "[[0.1], [nan]]"


def _listed(array: Array) -> Any:
    return decimals(array)
