"""Statistics and histograms of many samples at once: one pass over their concatenation, whatever their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from pnne_nb.inspector.sampling import FloatArray


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
    filled = sizes > 0
    # Empty rows have no start in `reduceat`; they are measured apart, as NaN.
    starts = np.concatenate(([0], np.cumsum(sizes[filled])[:-1])) if filled.any() else np.empty(0, np.int64)

    def spread(values: FloatArray, empty: float) -> npt.NDArray[np.float64]:
        out = np.full(rows, empty)
        out[filled] = values
        return out

    def reduce(ufunc: np.ufunc, values: FloatArray | npt.NDArray[np.bool_], empty: float) -> npt.NDArray[np.float64]:
        # A sum counts bools only if it is told to.
        dtype = np.int64 if values.dtype == np.bool_ else None
        return spread(ufunc.reduceat(values, starts, dtype=dtype) if len(starts) else np.empty(0), empty)

    def along(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """One value a row, for each element of it."""
        return np.repeat(values, sizes)

    low, high = reduce(np.minimum, x, np.nan), reduce(np.maximum, x, np.nan)
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        mean = reduce(np.add, wide, np.nan) / sizes
        deviation = wide - along(mean)
        deviations = reduce(np.add, np.square(deviation, out=deviation), 0.0)
        values = {
            "mean": mean,
            "std": np.where(sizes > 1, np.sqrt(deviations / (sizes - 1.0)), np.nan),
            "min": low,
            "max": high,
            "norm": np.sqrt(reduce(np.add, np.square(wide), 0.0)),
            "zeros": reduce(np.add, x == 0, np.nan) / sizes,
            "nan": nan,
            "inf": inf,
        }
    lower, upper = bin_edges(np.where(filled, low, 0.0), np.where(filled, high, 1.0))
    index = (wide - along(lower)) * along(bins / (upper - lower))
    index = np.minimum(index, bins - 0.5, out=index) + along(bins * np.arange(rows, dtype=np.float64))
    counts = np.bincount(index.astype(np.intp), minlength=rows * bins).reshape(rows, bins)
    return Segments(counts, lower, upper, values)


def bin_edges(
    low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The outer edges for values from `low` to `high`; a single value gets bins around it."""
    single = (high - low) <= 1e-12 * np.maximum(1e-30, np.abs(high))
    half = np.where(single, np.maximum(0.5, np.abs(low) * 1e-3), 0.0)
    return low - half, high + half
