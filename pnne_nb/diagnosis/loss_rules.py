"""Rules about the curve of the loss.

Each rule is a frozen value with thresholds, chosen well outside of what the healthy trainings of the tests show.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from pnne_nb.diagnosis.evidence import Evidence, beginning, ends, finite, line
from pnne_nb.diagnosis.finding import Finding


@final
@dataclass(frozen=True)
class LossNotDecreasing:
    """A loss that has not decreased after many steps.

    Attributes:
        least: Least number of steps: a transformer may need as many before it begins to learn.
        improvement: Share of its first value by which the loss should have decreased.
        patience: Steps up to which any decrease beyond the scatter of the losses is enough.
    """

    least: int = 150
    improvement: float = 0.02
    patience: int = 500

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Compare the first and the last fifth; report nothing if the loss is tiny, or grows (see `Divergence`)."""
        losses = finite(evidence.losses)
        first, last = ends(losses)
        if len(losses) < self.least or first is None or last is None or abs(first) < 1e-3:
            return []
        # The scatter of the losses hides a decrease.
        error = float(np.std(losses[-len(losses) // 5 :], ddof=1)) / (len(losses) / 5) ** 0.5
        _, before = ends(losses[: -max(1, len(losses) // 5)])
        growing = last - first > 2 * error and before is not None and last > before
        if growing or first - last > self.improvement * abs(first) or last - first > max(0.5 * abs(first), 2 * error):
            return []
        # A small but certain decrease: transformers often begin so. A line through all losses shows less than the ends.
        slope, slope_error = line(losses)
        if len(losses) * evidence.stride < self.patience and (first - last > 2 * error or -slope > 2 * slope_error):
            return []
        return [
            Finding(
                "loss-not-decreasing",
                None,
                f"After {len(losses) * evidence.stride} steps the loss is {last:.4g}; it began at {first:.4g}.",
                "Check that targets belong to their inputs, that gradients reach all layers, that the steps are neither tiny"
                " nor far too large, and that a few examples can be learnt by heart.",
            )
        ]


@final
@dataclass(frozen=True)
class Divergence:
    """A loss that has grown well above both where it began and where it was lowest.

    Attributes:
        least: Least number of steps.
        growth: Factor by which the loss has grown.
    """

    least: int = 20
    growth: float = 1.5

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Compare medians of windows, so that single spikes do not count."""
        losses = finite(evidence.losses)
        if len(losses) < self.least:
            return []
        width = max(5, len(losses) // 10)
        windows = [
            statistics.median(losses[start : start + width]) for start in range(0, len(losses) - width + 1, width)
        ]
        first, last = windows[0], statistics.median(losses[-width:])
        # Compared with the very first loss too: a loss that fell to almost 0 at once may multiply without harm.
        if last <= self.growth * max(abs(first), abs(losses[0])) or last <= self.growth * abs(min(windows)):
            return []
        hint = "Lower the learning rate, warm it up, clip gradients, or check the data for outliers."
        return [Finding("divergence", None, f"The loss has grown from {first:.4g} to {last:.4g}.", hint)]


@final
@dataclass(frozen=True)
class Overfitting:
    """A validation loss that rises for several epochs while the training loss still falls.

    Attributes:
        epochs: Least number of epochs since the best one.
        growth: Relative growth of the validation loss since then, compared with its value then and with the first training
            loss: a validation loss near 0 may double without harm.
    """

    epochs: int = 3
    growth: float = 0.1

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Compare the last epoch with the best one."""
        pairs = [
            (number, metrics["train_loss"], metrics["val_loss"])
            for number, metrics in enumerate(evidence.epochs, 1)
            if math.isfinite(metrics.get("train_loss", math.nan)) and math.isfinite(metrics.get("val_loss", math.nan))
        ]
        if len(pairs) <= self.epochs:
            return []
        best = min(range(len(pairs)), key=lambda index: pairs[index][2])
        (epoch, train_then, val_then), (_, train_now, val_now) = pairs[best], pairs[-1]
        since = len(pairs) - 1 - best
        if since < self.epochs or train_now >= train_then:
            return []
        after = [val for _, _, val in pairs[best + 1 :]]
        began = max(abs(val_then), beginning(evidence.losses) or 0.0)
        # A loss that jumps is as likely to come back.
        if min(after[-self.epochs :]) < val_then + self.growth * began or val_now < statistics.median(after):
            return []
        return [
            Finding(
                "overfitting",
                None,
                f"The validation loss was lowest in epoch {epoch} ({val_then:.4g}) and is {val_now:.4g} now, while"
                f" the training loss went on falling from {train_then:.4g} to {train_now:.4g}.",
                f"Stop at epoch {epoch}, get more data or augment it, use dropout or weight decay, or a smaller model.",
            )
        ]


@final
@dataclass(frozen=True)
class Oscillation:
    """A loss that repeatedly jumps above its first value, or that jumped and has stayed above it since.

    Minibatches scatter a loss too, the smaller the more: what their size explains is no oscillation.

    Attributes:
        least: Least number of steps.
        fallen: A tenth of the last half of the losses is below this share of the first loss. For a loss that stayed high,
            half of this share counts.
        jump: A tenth of the last half of the losses, or three losses in a row, are above the first loss times this factor.
        beyond: How many times the ratio of large to small losses is, at least, that the size of a batch explains.
    """

    least: int = 40
    fallen: float = 0.7
    jump: float = 1.5
    beyond: float = 2.0

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Count how often the loss crosses the level that it began at."""
        losses = finite(evidence.losses)
        if len(losses) < self.least or losses[0] <= 0:
            return []
        # Even the first update may ruin the model.
        began = min(losses[0], statistics.median(losses[:3]))
        known = np.asarray(losses)
        late = known[len(known) // 2 :]
        low, high = (float(np.sort(late)[int(share * len(late))]) for share in (0.1, 0.9))
        turns = int(((late[:-1] < began) & (began < late[1:])).sum())
        usual = float(np.median(late))
        scatter = 1.5 * float(np.median(abs(late - usual)))
        first, second, third = known[:-2], known[1:-1], known[2:]
        medians = np.maximum(np.minimum(first, second), np.minimum(np.maximum(first, second), third))
        highest = float(medians.max())
        count = evidence.examples * evidence.stride
        jumps = high >= max(self.jump * began, self.beyond * _scatter(count) * low)
        unlikely = max(self.jump * began, began + 4 * scatter, self.beyond * _scatter(2 * count) * began)
        if jumps and turns >= 2 and low <= self.fallen * began:
            reason = f"The loss jumps between {low:.4g} and {high:.4g}, and began at {began:.4g}: steps overshoot."
        elif highest > unlikely and usual > (1 + self.fallen) / 2 * began:
            reason = f"The loss began at {began:.4g}, has jumped to {highest:.4g}, and is at {losses[-1]:.4g}: steps overshoot."
        else:
            return []
        hint = "Lower the learning rate by a factor of 3 to 10, warm it up, or raise the batch size."
        return [Finding("oscillation", None, reason, hint)]


@final
@dataclass(frozen=True)
class SlowProgress:
    """A loss that decreases steadily but very little, because the steps are too small.

    Along a nearly constant gradient, the gain is proportional to the size of the step. A loss near its minimum decreases ever
    more slowly, and that of a transformer that begins to learn ever faster; the rule reports neither.

    Attributes:
        least: Least number of steps: a transformer may need as many before it begins to learn.
        gain: Share of the first loss by which the loss should have decreased.
        steady: Least ratio of the slower to the faster slope of the two halves.
    """

    least: int = 150
    gain: float = 0.1
    steady: float = 0.5

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Compare the slopes of both halves, beyond the scatter of the losses."""
        losses = finite(evidence.losses)
        if len(losses) < self.least or losses[0] <= 0:
            return []
        known, half = np.asarray(losses), len(losses) // 2
        (early, early_error), (late, late_error) = line(known[:half]), line(known[half:])
        gained = -line(known)[0] * len(losses)
        began = statistics.median(losses[: max(1, len(losses) // 10)])
        if not 0 < gained < self.gain * began or -late < 3 * late_error or -early < 3 * early_error:
            return []
        if not 1 / self.steady > late / early > self.steady:
            return []
        halved = 0.5 * began / -late * evidence.stride
        return [
            Finding(
                "slow-progress",
                None,
                f"In {len(losses) * evidence.stride} steps the loss has fallen by {gained / began:.1%} of {began:.4g}, as fast"
                f" at the end as at the beginning: {halved:,.0f} more would halve it.",
                "Raise the learning rate, tenfold at first; where it is warmed up, wait for the end of that.",
            )
        ]


def _scatter(count: int) -> float:
    """Return the ratio of the highest and the lowest tenth of means over `count` squared normal numbers; 1 for no numbers.

    The cube root of such a mean is nearly normal (Wilson and Hilferty 1931).
    """
    if not count:
        return 1.0
    variance = 2 / (9 * count)
    middle, spread = 1 - variance, 1.2816 * variance**0.5
    return float(((middle + spread) / max(middle - spread, 0.1)) ** 3)
