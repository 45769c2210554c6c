"""The agreement of a file with the model, at one node and on one batch: how it is measured and shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, final

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


@final
@dataclass(frozen=True, slots=True)
class NodeParity:
    """The agreement of the file with the model at one node.

    Attributes:
        node: The path of the node.
        type: Its type.
        difference: The worst element; None if the node has no tensor of its own in the file.
        note: Why it was not compared, if it was not.
        histograms: How the values are spread in model and file.
    """

    node: str
    type: str
    difference: Difference | None = None
    note: str = ""
    histograms: Histograms | None = None

    @property
    def error(self) -> float | None:
        """The largest distance between file and model, in the unit of the values; None if it was not compared."""
        return None if self.difference is None else self.difference.error

    @property
    def ratio(self) -> float | None:
        """The error divided by what is tolerated, where that is largest; above 1, file and model differ."""
        return None if self.difference is None else self.difference.ratio

    @property
    def ok(self) -> bool:
        """Whether file and model agree, as far as they were compared."""
        return self.difference is None or self.difference.ratio <= 1

    def __str__(self) -> str:
        return f"{self.node}: {self.note or self.difference}"


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of file and model on one batch.

    Attributes:
        what: ``"data"``, ``"example"``, or the sizes, ``"N=1, T=11"``.
        outputs: The worst element of each output, by name.
        error: What the runtime said, if it could not run the batch.
    """

    what: str
    outputs: Mapping[str, Difference] = field(default_factory=dict)
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether file and model agree."""
        return not self.error and all(each.ratio <= 1 for each in self.outputs.values())

    def __str__(self) -> str:
        if self.error:
            return f"{self.what}: {self.error}"
        bad = [f"{name}: {each}" for name, each in self.outputs.items() if each.ratio > 1]
        return f"{self.what}: {'; '.join(bad) or 'equal within rounding'}"
