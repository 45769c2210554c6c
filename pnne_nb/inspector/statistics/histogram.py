"""Computes histograms of single tensors, and of the segments of one, with automatic and with log-spaced bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pnne_nb.errors import ArgumentError, shown
from pnne_nb.inspector.statistics.sampling import FloatArray, sample, to_host


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


Bins = int | Literal["auto"]

INSPECTION_SAMPLE = 1 << 20
"""Larger tensors are histogrammed from an evenly spread sample of at most this many elements."""

_FEWEST, _MOST = 8, 128


@final
@dataclass(frozen=True)
class Histogram:
    """How the finite elements of one tensor are distributed.

    Attributes:
        edges: `[bins + 1]` edges; equally wide bins, or equally wide in the logarithm of the magnitude.
        counts: `[bins]` sampled finite elements per bin (the last bin contains its right edge).
        zeros: Elements that are exactly 0: in `counts` for plain bins, apart for log-spaced ones.
        sampled: How many elements were sampled, finite or not.
        total: How many elements there are.
        log: Whether the bins are those of magnitudes, spaced logarithmically.
    """

    edges: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    zeros: int
    sampled: int
    total: int
    log: bool


def histograms(tensors: Sequence[Tensor], bins: Bins = "auto", *, log: bool = False) -> list[Histogram]:
    """Histogram every tensor; the samples come to the host in one transfer per device.

    Args:
        tensors: Strided or sparse tensors; complex ones count by magnitude.
        bins: Number of bins, or ``"auto"``: by the Freedman-Diaconis rule, 8 to 128.
        log: Use magnitudes and log-spaced bins.

    Raises:
        ArgumentError: If `bins` is neither ``"auto"`` nor at least 1.

    Shape:
        - tensors: each `[*]`, of any shape.
    """
    asked: object = bins
    if asked != "auto" and not (isinstance(asked, int) and not isinstance(asked, bool) and asked >= 1):
        raise ArgumentError(
            f"bins must be 'auto' or at least 1, not {shown(bins)}. For log-spaced bins, pass log=True as well."
        )
    arrays = to_host([sample(tensor, INSPECTION_SAMPLE) for tensor in tensors])
    return [_histogram(array, tensor.numel(), bins, log=log) for tensor, array in zip(tensors, arrays, strict=True)]


def _histogram(array: FloatArray, total: int, bins: Bins, *, log: bool) -> Histogram:
    finite = array[np.isfinite(array)].astype(np.float64)
    zeros = int((finite == 0).sum())
    if log:
        # The bins are equally wide in logarithms; zeros are counted separately.
        finite = np.log10(np.abs(finite[finite != 0]))
    number = automatic_bins(finite) if bins == "auto" else bins
    if finite.size == 0:
        edges, counts = np.linspace(0.0, 1.0, number + 1), np.zeros(number, dtype=np.int64)
    else:
        [low], [high] = bin_edges(finite.min(keepdims=True), finite.max(keepdims=True))
        counts, edges = np.histogram(finite, bins=number, range=(low, high))
    return Histogram(10.0**edges if log else edges, counts.astype(np.int64), zeros, len(array), total, log)


def automatic_bins(finite: npt.NDArray[np.float64]) -> int:
    """Return the number of bins that the Freedman-Diaconis rule gives, between 8 and 128."""
    if finite.size == 0:
        return _FEWEST
    q25, q75 = np.percentile(finite, (25, 75))
    width = 2 * (q75 - q25) / finite.size ** (1 / 3)
    spread = float(finite.max() - finite.min())
    if width <= 0 or not np.isfinite(spread / width):
        return _MOST if spread > 0 else _FEWEST
    return int(min(_MOST, max(_FEWEST, np.ceil(spread / width))))
