"""Histograms of a node's values in the model and in the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

BINS: Final = 24
"""Bars of each histogram: so many can be told apart in a narrow panel."""

LARGEST: Final = float(np.finfo(np.float64).max)
TINY: Final = float(np.finfo(np.float64).tiny)


@final
@dataclass(frozen=True, slots=True)
class Histograms:
    """Counts of a node's values in the model and in the file, in the same bins.

    Attributes:
        low: Where the first bin begins, in the unit of the values.
        high: Where the last bin ends.
        model: How many values of the model are in each bin.
        file: How many of the file.
        left_out: Values of both that are not finite, or of a file whose values are far outside those of the model.
    """

    low: float
    high: float
    model: tuple[int, ...]
    file: tuple[int, ...]
    left_out: int = 0


def histograms(model: NDArray[np.generic], file: NDArray[np.generic]) -> Histograms | None:
    """Return the histograms of model and file; None if one of them has no finite value.

    Args:
        model: Values of the model, of any shape; of complex ones, the magnitude counts.
        file: Values of the file, as many.
    """
    ours, theirs = _finite(model), _finite(file)
    if ours.size == 0 or theirs.size == 0:
        return None
    low, high = float(min(ours.min(), theirs.min())), float(max(ours.max(), theirs.max()))
    if not np.isfinite(high - low):  # the two ends are further apart than a number can be
        low, high = float(ours.min()), float(ours.max())
    size = max(abs(low), abs(high))
    if high - low <= max(1e-12 * size, TINY):  # too few numbers for bins: masks are full of the smallest number
        half = max(0.5, 1e-3 * size)
        low, high = max(low - half, -LARGEST), min(high + half, LARGEST)
    of_model, of_file = (np.histogram(values, bins=BINS, range=(low, high))[0] for values in (ours, theirs))
    left_out = model.size + file.size - int(of_model.sum() + of_file.sum())
    return Histograms(low, high, tuple(of_model.tolist()), tuple(of_file.tolist()), left_out)


@np.errstate(invalid="ignore")  # of bits that numpy warns of when it converts them
def _finite(values: NDArray[np.generic]) -> NDArray[np.float64]:
    plain = np.abs(values) if np.iscomplexobj(values) else values
    flat = np.ravel(plain).astype(np.float64)
    return flat[np.isfinite(flat)]
