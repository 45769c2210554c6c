"""Curves keep their extremes in bounded memory."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.widgets.plots.curves import Curve, CurveTable


def filled(values: list[float], capacity: int = 8) -> Curve:
    curve = Curve(capacity)
    for x, y in enumerate(values):
        curve.append(x, y)
    return curve


def test_a_short_curve_is_kept_exactly() -> None:
    x, y, _ = filled([3.0, 1.0, 2.0]).points()
    assert x.tolist() == [0, 1, 2]
    assert y.tolist() == [3, 1, 2]
    assert x.dtype == y.dtype == np.float32


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=300))
def test_extremes_survive_decimation_in_order_and_within_the_limit(values: list[float]) -> None:
    x, y, smooth = filled(values).points()
    assert len(x) == len(y) == len(smooth) <= 8 + 3
    assert y.min() == min(values)
    assert y.max() == max(values)
    assert (np.diff(x) >= 0).all()


def test_a_million_points_stay_small_and_keep_one_spike() -> None:
    curve = Curve()
    for step in range(1_000_000):
        curve.append(step, 1.0 if step != 123_457 else 50.0)
    x, y, _ = curve.points()
    assert len(x) <= 1000 + 3
    assert curve.count == 1_000_000
    assert x[y.argmax()] == 123_457
    assert y.max() == 50


def test_what_cannot_be_drawn_is_a_gap_and_does_not_spoil_the_smoothed_curve() -> None:
    _, y, smooth = filled([1.0, math.nan, math.inf, 1.0]).points()
    assert np.isnan(y).tolist() == [False, True, True, False]
    assert smooth.tolist() == [1, 1, 1, 1]


def test_numbers_win_over_nan_when_buckets_merge() -> None:
    _, y, _ = filled([math.nan, 5.0] * 20).points()
    assert np.nanmax(y) == 5


def test_what_is_infinite_hides_no_number_of_its_stretch() -> None:
    _, y, _ = filled([math.inf, 5.0, -math.inf, 3.0] * 20).points()
    assert np.nanmin(y) == 3
    assert np.nanmax(y) == 5


def test_the_smoothed_curve_follows_and_is_calmer() -> None:
    values = [1.0 + (-1) ** step * 0.5 for step in range(400)]
    _, y, smooth = filled(values, capacity=1000).points()
    assert np.ptp(smooth[100:]) < 0.3 * np.ptp(y)
    assert abs(float(smooth[-1]) - 1.0) < 0.1


def test_a_table_has_a_column_for_each_name_and_gaps() -> None:
    table = CurveTable(["a", "b"])
    table.append(1, {"a": 1.0, "c": 9.0})
    table.append(2, {"a": 2.0, "b": math.inf})
    table.append(3, {"b": 5.0})
    x, y = table.table()
    assert x.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(y, np.array([[1, 2, np.nan], [np.nan, np.nan, 5]], dtype=np.float32))
    np.testing.assert_array_equal(table.latest, np.array([np.nan, 5], dtype=np.float32))


def test_a_full_table_thins_out_evenly() -> None:
    table = CurveTable(["a"], limit=10)
    for step in range(1000):
        table.append(step, {"a": float(step)})
    x, y = table.table()
    assert 5 <= len(x) <= 10
    assert len(set(np.diff(x).tolist())) == 1
    assert y[0].tolist() == x.tolist()
