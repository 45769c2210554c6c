"""Compares values of a file and of the model, relative to the rounding error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pnne_nb.export.proof.eager_run import Value

FACTOR = 8.0
"""How many times the movement under perturbation is still explained by rounding in another order."""

FLOOR = 8.0
"""The smallest tolerance: this many rounding errors of the largest value that was summed up with an element."""

Tolerance = float | Literal["auto"]
"""An absolute distance, or ``"auto"`` for what rounding explains."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The worst element of one comparison.

    Attributes:
        error: The distance there, in the unit of the values; infinite if only one of the two is finite.
        ratio: The distance divided by what is tolerated: above 1, rounding does not explain it.
        index: The place of the element; the first entry is the sample. None if the shapes differ.
        expected: What the model gives there.
        found: What the file gives there.
        shape: The shape that the file gives, if it is another one.
    """

    error: float
    ratio: float
    index: tuple[int, ...] | None
    expected: float
    found: float
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.shape is not None:
            return f"the file gives the shape {self.shape}"
        sample, *rest = self.index or ("",)
        where = f" at sample {sample}" if self.index else ""
        where += f", element {tuple(rest)}" if rest else ""
        return f"{self.found:.7g} instead of {self.expected:.7g}{where}: {self.ratio:.3g} × what rounding explains"


@np.errstate(all="ignore")  # both may hold any bits, and what is not finite is told by the result
def compare(found: NDArray[np.generic], value: Value, tolerance: Tolerance) -> Difference:
    """Return the worst difference between the values of a file and of the model.

    Args:
        found: Of the file.
        value: Of the model, with its movement under perturbation.
        tolerance: An absolute distance, or ``"auto"``.
    """
    expected = value.value
    if found.shape != expected.shape:
        return Difference(np.inf, np.inf, None, np.nan, np.nan, found.shape)
    if expected.size == 0:
        return Difference(0.0, 0.0, None, np.nan, np.nan)
    wide = np.complex128 if np.iscomplexobj(expected) else np.float64
    given, meant = found.astype(wide), expected.astype(wide)
    distance = np.asarray(np.abs(given - meant))  # of two single numbers, numpy makes no array
    distance[(given == meant) | (np.isnan(given) & np.isnan(meant))] = 0.0
    distance[~np.isfinite(distance)] = np.inf
    allowed = _allowed(value, tolerance)
    ratio = np.where(distance == 0.0, 0.0, distance / allowed)
    worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    place = tuple(int(each) for each in worst)
    return Difference(
        float(distance[worst]), float(ratio[worst]), place, float(meant[worst].real), float(given[worst].real)
    )


def _allowed(value: Value, tolerance: Tolerance) -> NDArray[np.float64]:
    if tolerance != "auto":
        return np.full(value.value.shape, float(tolerance))
    if value.moved is None:
        return np.zeros(value.value.shape)  # whole numbers are equal, or they are wrong
    size = np.abs(value.value).astype(np.float64)
    finite = np.where(np.isfinite(size), size, 0.0)
    moved = np.where(np.isfinite(value.moved), value.moved, 0.0)
    # An element that happens not to move in three runs is as uncertain as its neighbours.
    typical = float(np.sqrt(np.mean(moved**2))) if moved.size else 0.0
    scale = float(np.sqrt(np.mean(finite**2)))
    ulp = float(np.finfo(str(value.value.dtype)).eps)
    return np.maximum(FACTOR * np.maximum(moved, typical), FLOOR * ulp * np.maximum(finite, scale))
