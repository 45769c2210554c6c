"""How far a file may be from the model."""

from __future__ import annotations

import numpy as np
import pytest

from pnne_nb.export.proof.comparison import compare
from pnne_nb.export.proof.eager_run import Value

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
