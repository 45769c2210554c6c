"""`Evidence`: the frames of a training or of one inspection, sorted for the rules of a diagnosis."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray
from torch import nn

from pnne_nb.telemetry.frames import (
    BaselineFrame,
    EpochFrame,
    Frame,
    LookFrame,
    NormsFrame,
    Quantity,
    StatisticsFrame,
    StepFrame,
)

RECENT = 10
"""Number of latest observations that describe the present state."""

LOSSES = 1000
"""Most losses that are kept of a running training; of a longer one, means over several steps each."""

EARLY = 64
"""First losses that are kept as they are."""


@final
@dataclass
class Evidence:
    """Frames sorted by kind, in the order of their steps.

    Attributes:
        kinds: Type name of every layer, in the model's order.
        losses: Training losses by step, or means over `stride` steps each.
        stride: Steps over which each of the losses is averaged.
        early: The first losses as they were.
        steps: Number of losses so far.
        examples: Examples in the batch of the last step; 0 if it is not known.
        not_finite: The first step whose loss is NaN or infinite, or None.
        rate: The learning rate of the last step, or NaN if it is not known.
        highest_rate: The highest learning rate so far, or NaN.
        epochs: Metrics by epoch.
        norms: Gradient norms by observed step.
        statistics: Statistics by layer and quantity.
        looks: Step and updates of each look at the layers: ratios to the weights by layer.
        baseline: What answers that ignore the inputs would cost, if it is known.
    """

    kinds: Mapping[str, str]
    losses: list[float] = field(default_factory=list)
    stride: int = 1
    early: list[float] = field(default_factory=list)
    steps: int = 0
    examples: int = 0
    not_finite: int | None = None
    _pending: list[float] = field(default_factory=list)
    rate: float = math.nan
    highest_rate: float = math.nan
    epochs: list[Mapping[str, float]] = field(default_factory=list)
    _epoch: tuple[int, int] | None = None
    norms: list[NormsFrame] = field(default_factory=list)
    statistics: dict[tuple[str, Quantity], list[StatisticsFrame]] = field(default_factory=dict)
    looks: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    baseline: BaselineFrame | None = None

    @classmethod
    def of(cls, model: nn.Module | None) -> Evidence:
        """Return empty evidence about the layers of `model`; without a model, there are no layers."""
        named = () if model is None else model.named_modules()
        return cls({name: type(module).__name__ for name, module in named})

    def add(self, frame: Frame) -> None:
        """Sort in one more frame."""
        match frame:
            case StepFrame():
                self._add_loss(frame)
            case EpochFrame(epoch=epoch, step=step, metrics=metrics):
                if self._epoch == (epoch, step):
                    metrics = {**self.epochs.pop(), **metrics}
                self._epoch = epoch, step
                self.epochs.append(metrics)
            case NormsFrame():
                self.norms.append(frame)
            case StatisticsFrame():
                self.statistics.setdefault((frame.layer, frame.quantity), []).append(frame)
            case LookFrame():
                self._add_look(frame)
            case BaselineFrame():
                self.baseline = frame
            case _:
                pass

    def _add_loss(self, frame: StepFrame) -> None:
        if self.not_finite is None and not math.isfinite(frame.loss):
            self.not_finite = frame.step
        if math.isfinite(frame.learning_rate):
            self.rate = frame.learning_rate
            self.highest_rate = self.rate if math.isnan(self.highest_rate) else max(self.highest_rate, self.rate)
        self.steps += 1
        self.examples = frame.examples
        if len(self.early) < EARLY:
            self.early.append(frame.loss)
        self._pending.append(frame.loss)
        if len(self._pending) == self.stride:
            self.losses.append(statistics.fmean(self._pending))
            self._pending.clear()

    def _add_look(self, look: LookFrame) -> None:
        """Add a look at the layers, which says how they are now: what a look before has shown may be over."""
        self.statistics.clear()
        for one in (*look.statistics, *((look.norms,) if look.norms is not None else ())):
            self.add(one)
        ratios = {one.layer: one.values["ratio"] for one in look.statistics if one.quantity == "updates"}
        self.looks.append((look.step, ratios))

    def keep_recent(self) -> None:
        """Drop measurements older than `RECENT` observations, and average the losses of long trainings."""
        while len(self.losses) > LOSSES:
            pairs = zip(self.losses[::2], self.losses[1::2], strict=False)
            # An odd last loss is the mean of half as many steps, which hardly matters among a thousand.
            self.losses = [statistics.fmean(pair) for pair in pairs]
            self.stride *= 2
        del self.norms[:-RECENT]
        for frames in self.statistics.values():
            del frames[:-RECENT]

    @property
    def pace(self) -> float:
        """The learning rate relative to the highest so far, 0 to 1: a schedule may have lowered it."""
        return self.rate / self.highest_rate if self.highest_rate > 0 else 1.0

    @property
    def typical_update(self) -> float | None:
        """The median over the layers of the last update relative to the weights; None before a look at the layers."""
        return median(self.looks[-1][1].values()) if self.looks else None

    def layers(self, quantity: Quantity) -> list[str]:
        """Layers with statistics of `quantity`, in the model's order."""
        return [layer for layer in self.kinds if (layer, quantity) in self.statistics]

    def observed(self, step: int, quantity: Quantity) -> bool:
        """Return whether `quantity` of some layer was measured in `step`."""
        return any(
            of == quantity and any(frame.step == step for frame in frames)
            for (_, of), frames in self.statistics.items()
        )

    def recent(self, layer: str, quantity: Quantity, name: str) -> float | None:
        """Return the median of a statistic over the last observations, or None where it was never finite."""
        frames = self.statistics.get((layer, quantity), [])[-RECENT:]
        return median(frame.values[name] for frame in frames if name in frame.values)

    def recent_norms(self) -> dict[str, float]:
        """Return the median of each layer's gradient norm over the last observations, where it was ever finite."""
        recent = self.norms[-RECENT:]
        norms = {layer: median(one.norms[layer] for one in recent if layer in one.norms) for layer in self.kinds}
        return {layer: norm for layer, norm in norms.items() if norm is not None}


def median(values: Iterable[float]) -> float | None:
    """Return the median of the finite values, or None if there is none."""
    return statistics.median(found) if (found := finite(values)) else None


def finite(values: Iterable[float]) -> list[float]:
    """Return those of `values` that are finite."""
    found = list(values)
    # Most often all of them are, which their sum tells in a tenth of the time.
    return found if math.isfinite(sum(found)) else [value for value in found if math.isfinite(value)]


def ends(losses: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the medians of the first and of the last fifth of the finite losses; None if there are none."""
    known = finite(losses)
    width = max(1, len(known) // 5)
    return median(known[:width]), median(known[-width:])


@np.errstate(over="ignore")
def line(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, float]:
    """Return the slope of the regression line through two `values` or more, and its standard error."""
    count, known = len(values), np.asarray(values)
    places, mean = np.arange(count) - (count - 1) / 2, known.mean()
    spread = count * (count * count - 1) / 12
    # Of equal values, rounding must not make a slope.
    slope = float(places @ (known - mean)) / spread
    slope = 0.0 if abs(slope) * count < 1e-9 * abs(mean) else slope
    rest = float(((known - mean - slope * places) ** 2).sum())
    return slope, (rest / max(1, count - 2) / spread) ** 0.5


def beginning(losses: Sequence[float]) -> float | None:
    """Return the first finite loss, or the median of the first fifth if that is larger."""
    first, _ = ends(losses)
    return None if first is None else max(first, finite(losses)[0])


def gather(model: nn.Module | None, frames: Iterable[Frame]) -> Evidence:
    """Sort `frames` of `model`."""
    evidence = Evidence.of(model)
    for frame in frames:
        evidence.add(frame)
    return evidence


def earliest_frame(evidence: Evidence, quantity: Quantity, *, backwards: bool) -> StatisticsFrame | None:
    """Return the earliest frame with NaN or infinite values; within a step, that of the model's first such layer.

    With `backwards`, that of the last one, which the backward pass reaches first. A container comes after the layers inside
    it, because it returns their tensor later.
    """
    order = list(evidence.kinds)[:: -1 if backwards else 1]
    found = [
        frame
        for layer in evidence.layers(quantity)
        for frame in evidence.statistics[layer, quantity]
        if frame.values.get("nan", 0.0) > 0 or frame.values.get("inf", 0.0) > 0
    ]
    innermost = [frame for frame in found if not any(other.layer.startswith(f"{frame.layer}.") for other in found)]
    return min(innermost, key=lambda frame: (frame.step, order.index(frame.layer)), default=None)
