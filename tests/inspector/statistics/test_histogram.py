"""Histograms against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pnne_nb.errors import ArgumentError
from pnne_nb.inspector.statistics import histogram
from pnne_nb.inspector.statistics.histogram import automatic_bins, histograms, measure_segments
from pnne_nb.inspector.statistics.sampling import FloatArray


def test_plain_bins_equal_numpy() -> None:
    x = torch.randn(50, 20, dtype=torch.float64)
    [found] = histograms([x], 12)
    counts, edges = np.histogram(x.numpy(), bins=12)
    assert found.counts.tolist() == counts.tolist()
    assert np.allclose(found.edges, edges)
    assert (found.sampled, found.total, found.zeros, found.log) == (1000, 1000, 0, False)


def test_automatic_bins_follow_the_spread() -> None:
    assert len(histograms([torch.randn(10_000)])[0].counts) > 30
    assert automatic_bins(np.zeros(0)) == 8
    assert automatic_bins(np.ones(5)) == 8
    assert automatic_bins(np.array([0.0] * 99 + [1.0])) == 128
    assert automatic_bins(np.array([0.0] * 20 + [1e30] + [1.0] * 20)) == 128


def test_log_bins_are_of_magnitudes_and_zeros_stand_apart() -> None:
    [found] = histograms([torch.tensor([0.0, 1e-3, -1e-2, 1e-1, 1.0])], 3, log=True)
    assert found.zeros == 1
    assert found.counts.sum() == 4
    assert np.allclose(found.edges, [1e-3, 1e-2, 1e-1, 1.0])


def test_what_is_not_finite_one_value_and_nothing() -> None:
    tensors = [torch.tensor([float("nan"), 2.0, float("inf")]), torch.full((3,), 7.0), torch.empty(0)]
    odd, one, nothing = histograms(tensors, 4)
    assert (odd.counts.sum(), odd.sampled) == (1, 3)
    assert one.edges[0] < 7 < one.edges[-1]
    assert one.counts.sum() == 3
    assert nothing.counts.tolist() == [0, 0, 0, 0]


def test_large_tensors_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histogram, "INSPECTION_SAMPLE", 100)
    [found] = histograms([torch.randn(1000)], 5)
    assert found.counts.sum() == found.sampled <= 100
    assert found.total == 1000


def test_no_bins_are_refused() -> None:
    with pytest.raises(ValueError, match="bins must be 'auto' or at least 1, not 0"):
        histograms([torch.ones(1)], 0)
    with pytest.raises(ArgumentError, match=r"not 'log'\. For log-spaced bins, pass log=True"):
        histograms([torch.ones(1)], "log")  # type: ignore[arg-type]  # wrong on purpose


VALUES = st.one_of(st.floats(-1e3, 1e3, width=32), st.sampled_from([0.0, np.nan, np.inf, -np.inf]))


@given(st.lists(hnp.arrays(np.float32, st.integers(0, 20), elements=VALUES), max_size=6))
def test_each_row_is_its_sample(samples: list[FloatArray]) -> None:
    found = measure_segments(samples, 5)
    assert found.counts.shape == (len(samples), 5)
    for row, sample in enumerate(samples):
        values = {name: column[row] for name, column in found.values.items()}
        finite = sample[np.isfinite(sample)].astype(np.float64)
        assert (values["nan"], values["inf"]) == (np.isnan(sample).sum(), np.isinf(sample).sum())
        assert found.counts[row].sum() == finite.size
        assert found.lower[row] < found.upper[row]
        if finite.size == 0:
            assert np.isnan(values["mean"])
            assert values["norm"] == 0
            continue
        assert values["mean"] == pytest.approx(finite.mean(), abs=1e-9)
        assert values["norm"] == pytest.approx(np.linalg.norm(finite))
        assert (values["min"], values["max"]) == (finite.min(), finite.max())
        assert values["zeros"] == (finite == 0).mean()
        if finite.size > 1:
            assert values["std"] == pytest.approx(finite.std(ddof=1), abs=1e-9)
        else:
            assert np.isnan(values["std"])
