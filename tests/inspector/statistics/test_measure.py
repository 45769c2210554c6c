"""Statistics against a float64 reference in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.statistics import measure
from pnne_nb.inspector.statistics.measure import NEAR_ZERO, PERCENTILES, Statistics, statistics

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)
FLOATS = st.one_of(st.floats(-1e6, 1e6, width=32), st.sampled_from([0.0, -0.0, 1e-7, math.nan, math.inf, -math.inf]))


def only(tensor: Tensor) -> Statistics:
    [found] = statistics([tensor])
    return found


def assert_equals_reference(found: Statistics, array: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    flat = array.astype(np.float64).ravel()
    kept = flat[np.isfinite(flat)]
    assert found.count == flat.size
    assert found.nan == np.isnan(flat).sum()
    assert found.inf == np.isinf(flat).sum()
    odd = np.argwhere(~np.isfinite(array))
    assert found.first_nonfinite == (tuple(odd[0].tolist()) if len(odd) else None)
    if kept.size == 0:
        assert math.isnan(found.mean)
        assert math.isnan(found.zeros)
        assert found.norm == found.norm_1 == found.norm_inf == 0
        return
    scale = np.abs(kept).max()
    assert found.mean == pytest.approx(kept.mean(), rel=1e-12, abs=1e-13 * scale)
    assert (found.min, found.max, found.norm_inf) == (kept.min(), kept.max(), scale)
    assert found.norm == pytest.approx(np.linalg.norm(kept), rel=1e-12)
    assert found.norm_1 == pytest.approx(np.abs(kept).sum(), rel=1e-12)
    assert found.zeros == pytest.approx((kept == 0).mean())
    assert found.near_zeros == pytest.approx((np.abs(kept) <= NEAR_ZERO).mean())
    assert list(found.percentiles.values()) == pytest.approx(
        np.percentile(kept, PERCENTILES).tolist(), rel=1e-12, abs=1e-12 * scale
    )
    if kept.size > 1:
        assert found.std == pytest.approx(kept.std(ddof=1), rel=1e-9, abs=1e-13 * scale)
        assert found.var == pytest.approx(kept.var(ddof=1), rel=1e-9, abs=1e-13 * scale**2)
    else:
        assert math.isnan(found.std)


@given(hnp.arrays(np.float32, SHAPES, elements=FLOATS))
def test_statistics_equal_the_reference(array: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    found = only(torch.from_numpy(array))
    assert found.shape == array.shape
    assert found.dtype == "float32"
    assert_equals_reference(found, array)


@given(hnp.arrays(np.int64, SHAPES, elements=st.integers(-(2**40), 2**40)))
def test_integers_are_measured_as_numbers(array: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    assert_equals_reference(only(torch.from_numpy(array)), array)


def test_a_small_spread_far_from_zero_is_not_lost() -> None:
    x = 1e6 + torch.rand(10_000, dtype=torch.float64)
    assert only(x).std == pytest.approx(x.numpy().std(ddof=1), rel=1e-9)


def test_chunks_join_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_CHUNK", 7)
    x = torch.randn(5, 10)
    x[2, 3], x[4, 1] = math.nan, math.inf
    assert_equals_reference(only(x), x.numpy())
    assert only(x).first_nonfinite == (2, 3)


def test_percentiles_of_a_large_tensor_are_sampled_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "EXACT_PERCENTILES", 1000)
    found = only(torch.linspace(0, 1, 10_000))
    assert 900 < found.sampled <= 1000
    assert found.count == 10_000
    assert found.percentiles[50.0] == pytest.approx(0.5, abs=0.01)


def test_bools_complex_and_sparse_tensors_are_defined() -> None:
    assert only(torch.tensor([True, False, True])).mean == pytest.approx(2 / 3)
    found = only(torch.tensor([3 + 4j, 0j]))
    assert (found.mean, found.dtype, found.zeros) == (2.5, "complex64", 0.5)
    sparse = torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
    assert (only(sparse).shape, only(sparse).count, only(sparse).mean) == ((2, 2), 1, 2.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not_overflow(dtype: torch.dtype) -> None:
    x = torch.full((1000,), 300.0, dtype=dtype)
    assert only(x).norm == pytest.approx(300 * 1000**0.5)


def test_views_are_measured_as_they_look() -> None:
    x = torch.randn(4, 6)
    assert only(x.t()[1:]) == only(x.t()[1:].contiguous())


def test_many_tensors_come_in_order() -> None:
    tensors = [torch.full((n,), float(n)) for n in range(5)]
    assert [found.count for found in statistics(tensors)] == [0, 1, 2, 3, 4]
    assert statistics([]) == []


def test_statistics_are_a_mapping_and_a_row() -> None:
    found = only(torch.tensor([1.0, 3.0]))
    assert found["mean"] == found.mean == 2.0
    assert dict(found)["norm_1"] == 4.0
    assert len(found) == len(list(found))
    assert found.to_row()["p50"] == 2.0
    with pytest.raises(KeyError, match="median"):
        found["median"]


def test_tensors_without_values_are_refused() -> None:
    with pytest.raises(InspectionError, match=r"A tensor of shape \[2\] on device 'meta' .* has no values"):
        only(torch.empty(2, device="meta"))
