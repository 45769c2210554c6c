"""Rules that read frames and say what is wrong, where, why, and what to try.

Every rule is a small frozen value with thresholds; none looks at anything but `Evidence`. They are meant to be
quiet on healthy trainings: each threshold stands well outside of what those show.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import msgspec
from torch import nn

from pnne_nb.errors import ArgumentError, expect, shown
from pnne_nb.frames import AnomalyFrame, Frame
from pnne_nb.inspector.evidence import RECENT, Evidence, first_layer, gather, median


class Finding(msgspec.Struct, frozen=True):
    """Something that a person should look at.

    Attributes:
        kind: Stable machine name of what was found, e.g. ``"vanishing-gradients"``.
        layer: Path of the layer, or None for the training as a whole.
        reason: What was seen, with numbers.
        hint: What to try.
    """

    kind: str
    layer: str | None
    reason: str
    hint: str

    def __str__(self) -> str:
        return f"{f'{self.layer}: ' if self.layer else ''}{self.reason} {self.hint}"

    def frame(self, step: int) -> AnomalyFrame:
        """The finding as a frame, to be shown at its layer."""
        return AnomalyFrame(step, self.kind, self.reason, node=self.layer, hint=self.hint)


@runtime_checkable
class Rule(Protocol):
    """Finds one kind of trouble."""

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Return what was found; empty if all is well or too little is known."""


@final
@dataclass(frozen=True)
class NotFinite:
    """NaN or infinite values, at the layer where they came up first."""

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Look at activations in the order of the model, then at gradients against it, then at the loss."""
        frame = first_layer(evidence, "activations", ("nan", "inf"))
        if frame is not None:
            return [
                Finding(
                    "not-finite",
                    frame.layer,
                    f"Its output has {_count(frame.values)} at step {frame.step}, first of all layers.",
                    "Look at its inputs: a division by zero, the log or root of a negative number, an overflow in"
                    " half precision, or a learning rate that is too high.",
                )
            ]
        bad = [norms for norms in evidence.norms if not math.isfinite(norms.total)]
        if bad:
            layers = [name for name, norm in bad[0].norms.items() if not math.isfinite(norm)]
            return [
                Finding(
                    "not-finite",
                    # The backward pass runs against the order of the model.
                    layers[-1] if layers else None,
                    f"Its gradient is NaN or infinite at step {bad[0].step}, while the outputs are finite.",
                    "Check the loss for log(0), division by zero and sqrt at 0; clip gradients; lower the learning rate.",
                )
            ]
        if evidence.not_finite is not None:
            return [
                Finding(
                    "not-finite",
                    None,
                    f"The loss is NaN or infinite from step {evidence.not_finite} on.",
                    "Check the data and the targets for NaN, lower the learning rate, clip gradients.",
                )
            ]
        return []


@final
@dataclass(frozen=True)
class ExplodingGradients:
    """Gradient norms above `limit` in most of the last observations."""

    limit: float = 1000.0

    def norms(self, evidence: Evidence) -> dict[str, float]:
        """The norms that are too large, by layer."""
        norms = {layer: evidence.recent_norm(layer) for layer in evidence.kinds}
        return {layer: norm for layer, norm in norms.items() if norm is not None and norm > self.limit}

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Name the layer with the largest norm only: the others follow from it."""
        large = self.norms(evidence)
        if not large:
            return []
        worst = max(large, key=lambda layer: large[layer])
        return [
            Finding(
                "exploding-gradients",
                worst,
                f"The norm of its gradient is {large[worst]:.3g}, above {self.limit:g}"
                f"{_too(len(large) - 1, 'above it')}.",
                "Clip gradients, lower the learning rate, scale the data, or initialise with smaller weights.",
            )
        ]


@final
@dataclass(frozen=True)
class VanishingGradients:
    """Gradient norms below `limit` while the training still has something to learn."""

    limit: float = 1e-6
    converged: float = 0.1
    """A loss below this share of its first value counts as converged, and small gradients as natural."""

    def norms(self, evidence: Evidence) -> dict[str, float]:
        """The norms that are too small, by layer."""
        norms = {layer: evidence.recent_norm(layer) for layer in evidence.kinds}
        return {layer: norm for layer, norm in norms.items() if norm is not None and norm < self.limit}

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Name the first such layer: gradients vanish towards the input."""
        total = median(frame.total for frame in evidence.norms[-RECENT:])
        began, (_, last) = beginning(evidence.losses), ends(evidence.losses)
        if total is None or (began is not None and last is not None and last < self.converged * began):
            return []
        norms = self.norms(evidence)
        small = list(norms)
        if not small:
            return []
        return [
            Finding(
                "vanishing-gradients",
                small[0],
                f"The norm of its gradient is {norms[small[0]]:.3g}, below {self.limit:g}"
                f"{_too(len(small) - 1, 'below it')}.",
                "Use ReLU-like activations instead of saturating ones, normalisation, residual connections, or a"
                " better initialisation; check that nothing on the way is detached.",
            )
        ]


_RECTIFIERS = frozenset({"ReLU", "ReLU6", "Threshold", "relu", "relu6", "threshold"})


@final
@dataclass(frozen=True)
class DeadReLU:
    """Rectifiers whose output is 0 nearly everywhere, or most of whose units never fire."""

    zeros: float = 0.97
    dead: float = 0.5

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Look at the share of zeros, and at dead units where they were counted."""
        found = []
        for layer in evidence.layers("activations"):
            if evidence.kinds[layer] not in _RECTIFIERS:
                continue
            zeros = evidence.recent(layer, "activations", "zeros")
            dead = evidence.recent(layer, "activations", "dead")
            if (zeros is None or zeros < self.zeros) and (dead is None or dead < self.dead):
                continue
            units = f", and {dead:.0%} of its units never fire" if dead is not None else ""
            found.append(
                Finding(
                    "dead-relu",
                    layer,
                    f"{zeros or 0.0:.1%} of its outputs are 0{units}.",
                    "Lower the learning rate, check the bias and the initialisation of the layer before it,"
                    " normalise its input, or use LeakyReLU or GELU.",
                )
            )
        return found


@final
@dataclass(frozen=True)
class SaturatedActivations:
    """Bounded activations inside the model that sit at their bounds; the last one may, when it is right."""

    share: float = 0.8

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Look at the share of elements near a bound, as the probes count it."""
        inner = evidence.layers("activations")[:-1]
        shares = {layer: evidence.recent(layer, "activations", "saturation") for layer in inner}
        return [
            Finding(
                "saturated-activations",
                layer,
                f"{share:.0%} of the outputs of this {evidence.kinds[layer]} are at its bounds, where its gradient"
                " is nearly 0.",
                "Scale the data, initialise with smaller weights, normalise its input, or use an unbounded activation.",
            )
            for layer, share in shares.items()
            if share is not None and share >= self.share
        ]


@final
@dataclass(frozen=True)
class UpdateRatio:
    """Updates that are too large or too small against the weights; about 0.001 is usual."""

    low: float = 1e-6
    high: float = 0.2
    least: int = 5
    """Observations before it says anything: the first updates of an optimizer are large."""

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Name the worst layer of either kind, and how many are with it; unmoved weights come first."""
        ratios: dict[str, float] = {}
        for layer in evidence.layers("updates"):
            frames = evidence.statistics[layer, "updates"]
            ratio = evidence.recent(layer, "updates", "ratio")
            if len(frames) >= self.least and ratio is not None:
                ratios[layer] = ratio
        found = []
        still = [layer for layer in ratios if _never_moved(evidence, layer)]
        if still:
            found.append(
                Finding(
                    "unchanged-weights",
                    still[0],
                    f"Its weights have not changed at all{_others(still)}.",
                    "Check that the optimizer has its parameters, that the loss depends on it, and that the learning"
                    " rate is not 0.",
                )
            )
        slow = [layer for layer, ratio in ratios.items() if ratio < self.low and layer not in still]
        if slow:
            worst = min(slow, key=lambda layer: ratios[layer])
            found.append(
                Finding(
                    "update-ratio-low",
                    worst,
                    f"A step changes its weights by {ratios[worst]:.1e} of their size{_others(slow)}; about 1e-3 is"
                    " usual.",
                    "Raise the learning rate, or look for vanishing gradients.",
                )
            )
        fast = [layer for layer, ratio in ratios.items() if ratio > self.high]
        if fast:
            worst = max(fast, key=lambda layer: ratios[layer])
            found.append(
                Finding(
                    "update-ratio-high",
                    worst,
                    f"A step changes its weights by {ratios[worst]:.1%} of their size{_others(fast)}; about 0.1 % is"
                    " usual.",
                    "Lower the learning rate, warm it up, or clip gradients.",
                )
            )
        return found


@final
@dataclass(frozen=True)
class ZeroWeights:
    """Layers all of whose parameters are 0: their units can never become different from each other."""

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Look at the last observation of the parameters."""
        return [
            Finding(
                "zero-weights",
                layer,
                "All of its parameters are 0.",
                "Initialise it with random numbers, or check what loaded or reset it.",
            )
            for layer in evidence.layers("parameters")
            if evidence.recent(layer, "parameters", "zeros") == 1.0
        ]


@final
@dataclass(frozen=True)
class LossNotDecreasing:
    """A loss that has not moved down after many steps."""

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
    """A loss that has grown well above both where it began and where it was lowest."""

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
    """A validation loss that rises for several epochs while the training loss still falls."""

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


RULES: tuple[Rule, ...] = (
    NotFinite(),
    ExplodingGradients(),
    VanishingGradients(),
    DeadReLU(),
    SaturatedActivations(),
    UpdateRatio(),
    ZeroWeights(),
    LossNotDecreasing(),
    Divergence(),
    Overfitting(),
)
"""The rules with their default thresholds."""


def diagnose(model: nn.Module, frames: Iterable[Frame], rules: Iterable[Rule] = RULES) -> list[Finding]:
    """Apply `rules` to frames of `model`.

    Args:
        model: The module that the frames are about.
        frames: Of a training (``inspector.live()``, the engine's channel) or of one inspection.
        rules: What to look for; replace one to change its thresholds.

    Returns:
        The findings, in the order of the rules.

    Raises:
        ArgumentError: If `frames` or `rules` are none.
    """
    expect(frames, Iterable, "frames", "the frames of a training, such as live.frames")
    evidence = gather(model, frames)
    return [finding for rule in as_rules(rules) for finding in rule.find(evidence)]


def as_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """`rules`, looked through.

    Raises:
        ArgumentError: If one is no rule.
    """
    expect(rules, Iterable, "rules", "several rules", "RULES has them all.")
    listed = tuple(rules)
    for rule in listed:
        if isinstance(rule, type) or not isinstance(rule, Rule):
            raise ArgumentError(f"rules holds {shown(rule)}: give rules such as ExplodingGradients(limit=100).")
    return listed


def ends(losses: Sequence[float]) -> tuple[float | None, float | None]:
    """The median of the first and of the last fifth of the finite losses, or None where there are none."""
    finite = [loss for loss in losses if math.isfinite(loss)]
    width = max(1, len(finite) // 5)
    return median(finite[:width]), median(finite[-width:])


def beginning(losses: Sequence[float]) -> float | None:
    """What the finite losses began at: the first, or the median of the first fifth where that is larger."""
    first, _ = ends(losses)
    return None if first is None else max(first, next(loss for loss in losses if math.isfinite(loss)))


def _never_moved(evidence: Evidence, layer: str) -> bool:
    return all(frame.values.get("ratio") == 0.0 for frame in evidence.statistics[layer, "updates"])


def _too(others: int, where: str) -> str:
    return (
        "" if not others else f"; another layer is {where} too" if others == 1 else f"; {others} others are {where} too"
    )


def _others(layers: Sequence[str]) -> str:
    others = len(layers) - 1
    return "" if not others else " (as those of another layer)" if others == 1 else f" (as those of {others} others)"


def _count(values: dict[str, float]) -> str:
    parts = [f"{values[name]:.0f} {word}" for name, word in (("nan", "NaN"), ("inf", "infinite")) if values.get(name)]
    return f"{' and '.join(parts)} values"
