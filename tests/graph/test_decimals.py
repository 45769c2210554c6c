"""Numbers of arrays are written with as few digits as keep them, as NumPy writes them."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import example, given

from pnne_nb.graph.decimals import Array, decimals


@given(st.floats(width=32, allow_nan=False))
@example(1.401298464324817e-45)
@example(3.4028234663852886e38)
def test_of_float32_the_shortest_that_reads_back_equal(number: float) -> None:
    (short,) = _listed(torch.tensor([number]))
    assert torch.tensor(short).item() == number
    assert len(repr(short)) <= len(repr(number))
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
