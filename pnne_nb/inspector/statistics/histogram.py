"""Computes histograms of single tensors, with automatic and with log-spaced bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pnne_nb.errors import ArgumentError, shown
from pnne_nb.inspector.statistics.sampling import FloatArray, sample, to_host
from pnne_nb.inspector.statistics.segments import bin_edges

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
