"""Axes end on round numbers that enclose the data."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.widgets.plots.ticks import linear_ticks, log_ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.13, 2.4, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]),
        (-0.4, 0.4, [-0.4, -0.2, 0.0, 0.2, 0.4]),
        (3.0, 3.0, [2.6, 2.8, 3.0, 3.2, 3.4]),
        (0.0, 0.0, [-1.0, -0.5, 0.0, 0.5, 1.0]),
    ],
)
def test_linear(low: float, high: float, ticks: list[float]) -> None:
    assert linear_ticks(low, high) == ticks


def test_whole_numbers_have_no_fractions() -> None:
    assert linear_ticks(0, 3, whole=True) == [0, 1, 2, 3]
    assert linear_ticks(1, 1, whole=True) == [1, 2]
    assert linear_ticks(0, 1, whole=True) == [0, 1]


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_linear_ticks_enclose_the_data(low: float, span: float) -> None:
    ticks = linear_ticks(low, low + span)
    slack = 1e-6 * max(span, abs(low))
    assert ticks[0] <= low + slack
    assert ticks[-1] >= low + span - slack
    assert 2 <= len(ticks) <= 8


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.02, 3.0, [0.01, 0.1, 1.0, 10.0]),
        (0.1, 1.0, [0.1, 0.2, 0.5, 1.0]),
        (0.1, 0.1, [0.1, 0.2, 0.5]),
        (0.95, 2.3, [0.5, 1.0, 2.0, 5.0]),
        (0.03, 0.9, [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]),
        (8.0, 9.0, [2.0, 5.0, 10.0]),
        (1e-9, 1.0, [1e-9, 1e-7, 1e-5, 1e-3, 1e-1, 10.0]),
    ],
)
def test_log(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high) == ticks


@given(st.floats(1e-30, 1e10), st.floats(1.0, 1e20))
def test_log_ticks_enclose_the_data(low: float, factor: float) -> None:
    ticks = log_ticks(low, low * factor)
    assert ticks[0] <= low * (1 + 1e-6)
    assert ticks[-1] >= low * factor * (1 - 1e-6)
    assert ticks == sorted(set(ticks))
    assert 3 <= len(ticks) <= 7
