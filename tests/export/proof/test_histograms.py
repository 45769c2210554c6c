"""How the values of a node are spread in the model and in the file."""

from __future__ import annotations

import numpy as np
import pytest

from pnne_nb.export.proof.histograms import BINS, histograms


def test_both_have_the_same_bins() -> None:
    model = np.linspace(0, 1, 100, dtype=np.float32)
    found = histograms(model.reshape(4, 25), model + np.float32(2))
    assert found is not None
    assert (found.low, found.high, found.left_out) == (0.0, 3.0, 0)
    assert len(found.model) == len(found.file) == BINS
    assert sum(found.model[: BINS // 2]) == sum(found.file[BINS // 2 :]) == 100


def test_what_is_not_finite_is_counted_apart() -> None:
    found = histograms(np.array([0.0, 1.0, np.nan]), np.array([0.0, np.inf, 1.0]))
    assert found is not None
    assert found.left_out == 2
    assert histograms(np.array([np.nan]), np.array([1.0])) is None
    assert histograms(np.zeros(0), np.zeros(0)) is None


def test_one_value_whole_numbers_truth_values_and_complex_ones_have_bins() -> None:
    for values in (np.full(3, 7.0), np.arange(5), np.array([True, False]), np.array([1 + 1j, 2j]), np.float32(3)):
        found = histograms(np.asarray(values), np.asarray(values))
        assert found is not None
        assert found.low < found.high
        assert sum(found.model) == np.size(values)


@pytest.mark.parametrize(
    "value", [float(np.finfo(np.float32).min), 1e300, 1.7976931348623157e308, 2.0**62, 0.0, 5e-324]
)
def test_values_without_room_between_them_have_bins(value: float) -> None:
    for other in (value, float(np.nextafter(value, 0.0))):
        found = histograms(np.array([value, other]), np.array([value, value]))
        assert found is not None
        assert found.low < found.high
        assert (sum(found.model), sum(found.file), found.left_out) == (2, 2, 0)


def test_the_largest_numbers_leave_out_what_is_too_far() -> None:
    found = histograms(np.array([0.0, 1.0]), np.array([-1.7e308, 1.7e308]))
    assert found is not None
    assert (found.low, found.high, found.left_out) == (0.0, 1.0, 2)
