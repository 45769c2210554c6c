"""Curves of any length in bounded memory: what a plot needs of them, and no more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_MEMORY = 1 / 40
"""After which share of all points so far a value counts half in the smoothed curve: it lags little at any length."""


@final
class Curve:
    """A curve decimated as it grows, smoothed beside it.

    Consecutive points share a bucket that keeps its lowest and its highest point; when all buckets are full,
    neighbours merge and each holds twice as many points. A spike is never lost, and appending costs the
    same after a million points as after ten.

    Args:
        limit: Number of points kept at most; even.
    """

    def __init__(self, limit: int = 1000) -> None:
        if limit < 4 or limit % 4:
            raise ValueError(
                f"limit must be a multiple of 4, not {limit!r}: buckets hold two points and merge in pairs."
            )
        self.limit = limit
        self.count = 0
        self._stride = 1
        self._filled = 0
        self._buckets: list[_Bucket] = []
        # The points of all buckets but the last, ready to be drawn.
        self._ready = np.empty((limit, 3), dtype=np.float32)
        self._ready_count = 0
        self._smooth = _Smooth()

    def append(self, x: float, y: float) -> None:
        """Add the point (x, y); x must not decrease, y may be NaN or infinite (then it is a gap)."""
        self.count += 1
        point = (x, y, self._smooth.add(y))
        if self._buckets and self._filled < self._stride:
            self._buckets[-1] = _widen(self._buckets[-1], (point, point))
            self._filled += 1
            return
        if len(self._buckets) == self.limit // 2:
            self._merge()
        elif self._buckets:
            self._finish(self._buckets[-1])
        self._buckets.append((point, point))
        self._filled = 1

    def cut(self) -> None:
        """Begin the smoothing anew: what follows has nothing to do with what was."""
        self._smooth = _Smooth()

    def points(self) -> tuple[Floats, Floats, Floats]:
        """The kept points as x, y and smoothed y, each float32 `[n]` with n ≤ `limit`; not finite is NaN."""
        count = self._ready_count
        if self._buckets:
            self._finish(self._buckets[-1])
        columns = self._ready[: self._ready_count].T.copy()
        self._ready_count = count
        columns[1:][~np.isfinite(columns[1:])] = np.nan
        x, y, smooth = columns
        return x, y, smooth

    def _finish(self, bucket: _Bucket) -> None:
        """Write the one or two points of `bucket` behind those that are ready."""
        low, high = bucket
        first, second = (low, high) if low[0] <= high[0] else (high, low)
        with np.errstate(over="ignore"):
            self._ready[self._ready_count] = first
            self._ready_count += 1
            if second is not first:
                self._ready[self._ready_count] = second
                self._ready_count += 1

    def _merge(self) -> None:
        pairs = zip(self._buckets[::2], self._buckets[1::2], strict=True)
        self._buckets = [_widen(left, right) for left, right in pairs]
        self._stride *= 2
        self._ready_count = 0
        for bucket in self._buckets:
            self._finish(bucket)


_Point = tuple[float, float, float]
_Bucket = tuple[_Point, _Point]


def _widen(left: _Bucket, right: _Bucket) -> _Bucket:
    """The lowest and the highest point of two buckets; a number wins over NaN, the earlier point over an equal."""
    (low, high), (other_low, other_high) = left, right
    if other_low[1] < low[1] or math.isnan(low[1]):
        low = other_low
    if other_high[1] > high[1] or math.isnan(high[1]):
        high = other_high
    return low, high


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
        """Steps as float32 `[n]` and columns as float32 `[names, n]`, NaN where a name has no value."""
        rows = self._rows[: self._count]
        return rows[:, 0].copy(), rows[:, 1:].T.copy()
