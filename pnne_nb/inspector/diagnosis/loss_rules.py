"""Rules about the training as a whole: how its losses run.

Each is a frozen value with thresholds, which are ours: they stand well outside of what the healthy trainings of the tests
show.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pnne_nb.inspector.diagnosis.evidence import Evidence, Finding, ends


@final
@dataclass(frozen=True)
class LossNotDecreasing:
    """A loss that has not moved down after many steps.

    Attributes:
        least: Steps before it says anything.
        improvement: Share of its first value by which the loss should have fallen.
    """

    least: int = 50
    improvement: float = 0.02

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Compare the first and the last fifth; silent where the loss is already tiny, or grows.

        A loss that is still growing is left to `Divergence`, which waits until that is certain.
        """
        losses = [loss for loss in evidence.losses if math.isfinite(loss)]
        first, last = ends(losses)
        if len(losses) < self.least or first is None or last is None or abs(first) < 1e-3:
            return []
        # A loss that scatters more than it could have fallen says nothing yet.
        error = statistics.stdev(losses[-len(losses) // 5 :]) / (len(losses) / 5) ** 0.5
        _, before = ends(losses[: -max(1, len(losses) // 5)])
        growing = last - first > 2 * error and before is not None and last > before
        if growing or first - last > self.improvement * abs(first) or last - first > max(0.5 * abs(first), 2 * error):
            return []
        return [
            Finding(
                "loss-not-decreasing",
                None,
                f"After {len(losses) * evidence.stride} steps the loss is {last:.4g}; it began at {first:.4g}.",
                "Raise the learning rate, check that targets belong to their inputs, that gradients reach all layers,"
                " and that a few examples can be learnt by heart.",
            )
        ]


@final
@dataclass(frozen=True)
class Divergence:
    """A loss that has grown well above both where it began and where it was lowest.

    Attributes:
        least: Steps before it says anything.
        growth: The factor that it has grown by.
    """

    least: int = 20
    growth: float = 1.5

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Compare medians of windows, so that single spikes do not count."""
        losses = [loss for loss in evidence.losses if math.isfinite(loss)]
        if len(losses) < self.least:
            return []
        width = max(5, len(losses) // 10)
        windows = [
            statistics.median(losses[start : start + width]) for start in range(0, len(losses) - width + 1, width)
        ]
        first, last = windows[0], statistics.median(losses[-width:])
        # The very first loss, too: one that has fallen to nearly nothing at once may multiply without any harm.
        if last <= self.growth * max(abs(first), abs(losses[0])) or last <= self.growth * abs(min(windows)):
            return []
        return [
            Finding(
                "divergence",
                None,
                f"The loss has grown from {first:.4g} to {last:.4g}.",
                "Lower the learning rate, warm it up, clip gradients, or check the data for outliers.",
            )
        ]


@final
@dataclass(frozen=True)
class Overfitting:
    """A validation loss that rises for several epochs while the training loss still falls.

    Attributes:
        epochs: Since the best one.
        growth: The factor that the validation loss has grown by since.
    """

    epochs: int = 3
    growth: float = 1.1

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Compare the last epoch with the best one."""
        pairs = [
            (metrics["train_loss"], metrics["val_loss"])
            for metrics in evidence.epochs
            if "train_loss" in metrics and "val_loss" in metrics
        ]
        if len(pairs) <= self.epochs:
            return []
        best = min(range(len(pairs)), key=lambda index: pairs[index][1])
        (train_then, val_then), (train_now, val_now) = pairs[best], pairs[-1]
        since = len(pairs) - 1 - best
        if since < self.epochs or val_now < self.growth * val_then or train_now >= train_then:
            return []
        return [
            Finding(
                "overfitting",
                None,
                f"The validation loss was lowest in epoch {best + 1} ({val_then:.4g}) and is {val_now:.4g} now, while"
                f" the training loss went on falling from {train_then:.4g} to {train_now:.4g}.",
                f"Stop at epoch {best + 1}, get more data or augment it, use dropout or weight decay, or a smaller model.",
            )
        ]
