"""Computes statistics and histograms of many samples at once: one pass over their concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from pnne_nb.inspector.statistics.sampling import FloatArray


@final
@dataclass(frozen=True)
class Segments:
    """Per-sample results; row i belongs to sample i. Only finite elements count, except in `nan` and `inf`.

    Attributes:
        counts: `[samples, bins]` finite elements per bin.
        lower: Left edge of the first bin.
        upper: Right edge of the last bin.
        values: Arrays by statistic: ``"mean"``, ``"std"`` (with n - 1), ``"min"``, ``"max"``, ``"norm"``,
            ``"zeros"`` (fraction), ``"nan"``, ``"inf"`` (counts).
    """

    counts: npt.NDArray[np.int64]
    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]
    values: dict[str, npt.NDArray[np.float64]]


def measure_segments(samples: Sequence[FloatArray], bins: int) -> Segments:
    """Measure every sample; an empty one has NaN statistics and the edges 0 and 1.

    Args:
        samples: 1-D arrays.
        bins: Number of equally wide bins.
    """
    rows = len(samples)
    sizes = np.array([len(sample) for sample in samples], dtype=np.int64)
    x = np.concatenate(samples) if rows else np.empty(0)
    nan = inf = np.zeros(rows)
    with np.errstate(invalid="ignore"):
        all_finite = bool(np.isfinite(x.sum(dtype=np.float64)))
    if not all_finite:
        row, finite = np.repeat(np.arange(rows), sizes), np.isfinite(x)
        nan = np.bincount(row[np.isnan(x)], minlength=rows).astype(np.float64)
        x, kept = x[finite], np.bincount(row[finite], minlength=rows)
        inf, sizes = sizes - nan - kept, kept
    # Rows without elements have no start in `reduceat`.
    filled = np.flatnonzero(sizes)
    n = sizes[filled]
    starts = np.cumsum(n) - n

    def along(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the value of its row for each element."""
        return np.repeat(values, n)

    def rows_of(values: npt.NDArray[np.floating[Any]], empty: float = np.nan) -> npt.NDArray[np.float64]:
        if len(values) == rows:
            return values.astype(np.float64, copy=False)
        out = np.full(rows, empty)
        out[filled] = values
        return out

    low, high = np.minimum.reduceat(x, starts), np.maximum.reduceat(x, starts)
    mean = np.add.reduceat(x, starts, dtype=np.float64) / n
    # From here on, one array is changed in place, because allocating large arrays is slow.
    place = x - along(mean)
    deviations = np.add.reduceat(np.square(place), starts)
    values = {
        "mean": rows_of(mean),
        "std": rows_of(np.sqrt(np.where(n > 1, deviations / np.maximum(n - 1, 1), np.nan))),
        "min": rows_of(low),
        "max": rows_of(high),
        "norm": rows_of(np.sqrt(deviations + n * np.square(mean)), 0.0),
        "zeros": rows_of(np.add.reduceat(x == 0, starts, dtype=np.int64) / n),
        "nan": nan,
        "inf": inf,
    }
    lower, upper = bin_edges(rows_of(low, 0.0), rows_of(high, 1.0))
    first = lower[filled]
    place += along(mean - first)
    place *= along(bins / (upper[filled] - first))
    # Rounding must not move a value to another row.
    np.minimum(np.maximum(place, 0.0, out=place), bins - 0.5, out=place)
    place += along(bins * filled.astype(np.float64))
    counts = np.bincount(place.astype(np.intp), minlength=rows * bins).reshape(rows, bins)
    return Segments(counts, lower, upper, values)


def bin_edges(
    low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the outer edges for values from `low` to `high`; a single value gets bins around it."""
    single = (high - low) <= 1e-12 * np.maximum(1e-30, np.abs(high))
    half = np.where(single, np.maximum(0.5, np.abs(low) * 1e-3), 0.0)
    return low - half, high + half
