"""How the values of a node are spread in the model and in the file."""

from __future__ import annotations

import numpy as np
import pytest

from pnne_nb.export.proof.eager_run import Value
from pnne_nb.export.proof.parity import BINS, compare, histograms


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


VALUES = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)


def value(moved: float = 1e-7) -> Value:
    return Value(VALUES, np.full(VALUES.shape, moved))


def test_equal_arrays_have_no_error() -> None:
    found = compare(VALUES.copy(), value(), "auto")
    assert (found.error, found.ratio) == (0.0, 0.0)


def test_the_worst_sample_and_element_are_named() -> None:
    wrong = VALUES.copy()
    wrong[2, 3] += 0.01
    found = compare(wrong, value(), "auto")
    assert found.index == (2, 3)
    assert found.error == pytest.approx(0.01, rel=1e-4)
    assert found.ratio > 1
    assert "at sample 2, element (3,)" in str(found)


def test_what_moves_more_may_differ_more() -> None:
    wrong = VALUES + np.float32(1e-4)
    assert compare(wrong, value(1e-7), "auto").ratio > 1
    assert compare(wrong, value(1e-3), "auto").ratio < 1


def test_a_distance_can_be_given() -> None:
    wrong = VALUES + np.float32(0.5)
    assert compare(wrong, value(), 0.4).ratio > 1
    assert compare(wrong, value(), 0.6).ratio < 1


def test_another_shape_is_a_difference() -> None:
    found = compare(VALUES[:2], value(), "auto")
    assert found.ratio == np.inf
    assert str(found) == "the file gives the shape (2, 6)"


def test_nan_equals_nan_and_nothing_else() -> None:
    with_nan = VALUES.copy()
    with_nan[0, 0] = np.nan
    assert compare(with_nan, Value(with_nan, np.zeros(VALUES.shape)), "auto").ratio == 0
    assert compare(with_nan, value(), "auto").ratio == np.inf


def test_whole_numbers_are_equal_or_wrong() -> None:
    numbers = np.arange(6)
    assert compare(numbers.copy(), Value(numbers, None), "auto").ratio == 0
    assert compare(numbers + (numbers == 3), Value(numbers, None), "auto").index == (3,)


def test_a_single_number_is_compared() -> None:
    single = Value(np.array(2.0, np.float32), np.zeros(()))
    assert compare(np.asarray(np.float32(2.0)), single, "auto").ratio == 0
    wrong = compare(np.asarray(np.float32(3.0)), single, "auto")
    assert (wrong.error, wrong.index) == (1.0, ())
