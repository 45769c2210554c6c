from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from pnne_nb.compiler.weights.tensor_file import TensorFileError, pack, unpack

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.just("$"), inner)
        | st.dictionaries(st.text(), inner).map(OrderedDict)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values_come_back_with_their_types(value: Any) -> None:
    back = unpack(*pack({"value": value}))["value"]
    assert back == value
    assert repr(back) == repr(value)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 4).t(),
        torch.tensor(math.nan),
        torch.zeros(0, 5),
        torch.randn(3).bfloat16(),
        torch.tensor([True, False]),
        torch.randn(2, dtype=torch.complex64),
        torch.randn(1, 2, 3, 3).contiguous(memory_format=torch.channels_last),
    ],
)
def test_tensors_come_back(tensor: torch.Tensor) -> None:
    back = unpack(*pack({"value": [tensor]}))["value"][0]
    assert back.dtype == tensor.dtype
    assert torch.equal(back.isnan(), tensor.isnan())
    assert torch.equal(back.nan_to_num(), tensor.nan_to_num())


def test_tied_tensors_are_kept_once() -> None:
    weight = torch.randn(2, 2)
    text, tensors = pack({"a": weight, "b": {"c": weight}, "transposed": weight.t()})
    assert list(tensors) == ["a", "transposed"]
    assert torch.equal(unpack(text, tensors)["b"]["c"], weight)


def test_a_state_dict_keeps_its_order_and_versions() -> None:
    state = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).state_dict()
    back = unpack(*pack({"model": state}))["model"]
    assert list(back) == list(state)
    assert back._metadata == state._metadata  # type: ignore[attr-defined]  # the test knows its type


def test_counters_sets_and_types_of_torch() -> None:
    value = {
        "milestones": Counter([3, 3, 5]),
        "set": {1, 2},
        "frozen": frozenset({"a"}),
        "dtype": torch.bfloat16,
        "device": torch.device("cpu"),
    }
    assert unpack(*pack(value)) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, object()]}, r"cannot hold a\.1, a object"),
        ({"a": {"b": len}}, r"cannot hold a\.b, a builtin_function_or_method"),
        ({"a": torch.eye(2).to_sparse()}, r"cannot hold a, a tensor of layout torch.sparse_coo"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(TensorFileError, match=message):
        pack(value)


def test_the_text_is_json() -> None:
    assert json.loads(pack({"a": (1, 2)})[0]) == {"a": {"$": "tuple", "items": [1, 2]}}
