from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import example as tried
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.telemetry.series import Series


def filled(values: list[float], capacity: int, *, paired: bool = False, nan_wins: bool = True) -> Series:
    series = Series(capacity, paired=paired, nan_wins=nan_wins)
    for step, value in enumerate(values, start=1):
        series.append(step, value, -step)
    return series


def test_every_value_is_kept_while_there_is_room() -> None:
    steps, values, companions = filled([3.0, 1.0, 2.0], 8).points()
    assert steps.tolist() == [1, 2, 3]
    assert values.tolist() == [3.0, 1.0, 2.0]
    assert not companions


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400), st.sampled_from([4, 8, 16, 64]), st.booleans())
@tried([0.0, 0.0, 0.0, 0.0], 4, True)
@tried([0.0, 3.0, 1.0, 2.0], 4, True)
@tried([0.0, 3.0, 1.0, 2.0, 5.0, 9.0, 1.0, 6.0], 4, True)
def test_extremes_and_the_newest_value_survive_in_order(values: list[float], capacity: int, nan_wins: bool) -> None:
    series = filled(values, capacity, paired=True, nan_wins=nan_wins)
    steps, kept, companions = series.points()
    assert len(series) < capacity
    assert len(steps) <= capacity + 3
    assert min(kept) == min(values)
    assert max(kept) == max(values)
    assert steps[-1] == len(values)
    assert list(steps) == sorted(steps)
    assert all(values[step - 1] == value for step, value in zip(steps, kept, strict=True))
    assert companions.tolist() == [-step for step in steps]


def test_a_nan_stays_visible_or_loses_against_every_number() -> None:
    values = [0.0] * 1000
    values[500] = math.nan
    steps, kept, _ = filled(values, 16).points()
    assert 501 in [step for step, value in zip(steps, kept, strict=True) if math.isnan(value)]
    assert not any(map(math.isnan, filled(values, 16, nan_wins=False).points()[1]))


def test_a_stretch_of_nothing_but_nan_is_nan() -> None:
    assert all(map(math.isnan, filled([math.nan] * 1000, 16, nan_wins=False).points()[1]))


def test_the_resolution_is_the_same_everywhere() -> None:
    series = filled([float(i % 7) for i in range(100_000)], 1024)
    steps, _, _ = series.points()
    assert max(after - before for before, after in itertools.pairwise(steps)) <= 2 * series.state_dict()["stretch"]


@pytest.mark.parametrize("count", [3, 100, 1003])
def test_a_state_goes_on_as_if_nothing_had_been(count: int) -> None:
    values = [float((7 * step) % 31) for step in range(1500)]
    series, whole = Series(16), filled(values, 16)
    series.load_state_dict(filled(values[:count], 16).state_dict())
    for step, value in enumerate(values[count:], start=count + 1):
        series.append(step, value)
    assert series.points() == whole.points()


@pytest.mark.parametrize("capacity", [0, 2, 6])
def test_a_capacity_is_a_multiple_of_four(capacity: int) -> None:
    with pytest.raises(ValueError, match="capacity must be a positive multiple of 4"):
        Series(capacity)
