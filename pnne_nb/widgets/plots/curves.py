"""Curves of any length in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from pnne_nb.telemetry.series import Series

Floats = NDArray[np.float32]

_MEMORY = 1 / 40
"""Share of all points after which a value's weight in the smoothed curve is halved, so that it lags little at any length."""


@final
class Curve:
    """A growing curve that is decimated without losing spikes, and its smoothed form.

    Args:
        capacity: Number of points kept at most, beside the newest three; a multiple of 4.
    """

    def __init__(self, capacity: int = 1000) -> None:
        self.count = 0
        self._newest = 0
        self._series = Series(capacity, paired=True, nan_wins=False)
        self._smooth = _Smooth()

    def append(self, x: int, y: float) -> None:
        """Add the point (x, y); y may be NaN or infinite (then it is a gap). Where x goes back, what was after it is gone."""
        if x < self._newest:
            self._series.cut(x - 1)
            self.cut()
        self._newest = x
        self.count += 1
        self._series.append(x, y if math.isfinite(y) else math.nan, self._smooth.add(y))

    def cut(self) -> None:
        """Restart the smoothing, because later values are unrelated to earlier ones."""
        self._smooth = _Smooth()

    def points(self) -> tuple[Floats, Floats, Floats]:
        """Return the kept points as x, y and smoothed y, each float32 `[n]`; what is not finite in float32 is NaN."""
        with np.errstate(over="ignore"):
            x, y, smooth = (np.array(column, dtype=np.float32) for column in self._series.points())
        for column in (y, smooth):
            column[~np.isfinite(column)] = np.nan
        return x, y, smooth


class _Smooth:
    """Exponential moving average, unbiased from the first value; values that are not finite are skipped."""

    def __init__(self) -> None:
        self._count = 0
        self._total = 0.0
        self._weight = 0.0

    def add(self, value: float) -> float:
        if math.isfinite(value):
            self._count += 1
            keep = 0.5 ** (1 / max(1.0, _MEMORY * self._count))
            self._total = keep * self._total + (1 - keep) * value
            self._weight = keep * self._weight + (1 - keep)
        return self._total / self._weight if self._weight else math.nan


@final
class CurveTable:
    """Several curves over the same steps, decimated together.

    When it is full, every second row goes; the rows that stay are evenly spread. Unlike `Curve` this may lose
    a spike: it holds what is measured a few times a second, and its figure draws one line per name.

    Args:
        names: One column each.
        limit: Number of rows kept at most.
    """

    def __init__(self, names: Sequence[str], limit: int = 250) -> None:
        self.names = list(names)
        self.latest = np.full(len(self.names), np.nan, dtype=np.float32)
        self._rows = np.empty((limit, 1 + len(self.names)), dtype=np.float32)
        self._count = 0
        self._stride = 1
        self._skipped = 0

    def append(self, x: float, values: Mapping[str, float]) -> None:
        """Add a row; a name without a value, or with one that is not finite, has a gap there."""
        with np.errstate(over="ignore"):
            self.latest = np.array([values.get(name, math.nan) for name in self.names]).astype(np.float32)
        self.latest[~np.isfinite(self.latest)] = np.nan
        if self._count and x < self._rows[self._count - 1, 0]:
            # The training went back.
            self._count = int(np.searchsorted(self._rows[: self._count, 0], x))
        self._skipped += 1
        if self._count and self._skipped < self._stride:
            return
        self._skipped = 0
        if self._count == len(self._rows):
            kept = self._rows[::2]
            self._count, self._stride = len(kept), 2 * self._stride
            self._rows[: self._count] = kept.copy()
        self._rows[self._count, 0] = x
        self._rows[self._count, 1:] = self.latest
        self._count += 1

    def table(self) -> tuple[Floats, Floats]:
        """Return the steps as float32 `[n]` and columns as float32 `[names, n]`, NaN where a name has no value."""
        rows = self._rows[: self._count]
        return rows[:, 0].copy(), rows[:, 1:].T.copy()
