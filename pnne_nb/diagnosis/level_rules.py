"""Rules that compare a training with what needs no training: the best constant answer, weights as they are usually drawn."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from pnne_nb.diagnosis.evidence import Evidence, ends, finite, line
from pnne_nb.diagnosis.finding import Finding


@final
@dataclass(frozen=True)
class AtChance:
    """A model that is no better than the best constant answer, although its steps are of a usual size.

    Transformers and recurrent networks may stay there for some hundred steps before they begin to learn. What learns its
    training examples and is no better on others is told earlier.

    Attributes:
        least: Least number of steps where the training loss falls and the validation loss is no better.
        patience: Least number of steps where neither is.
        epochs: Least number of validations.
        share: Share of the cost of the constant answer below which a loss is better.
        learned: The same for a training loss that has fallen: less is what noisy data show.
        moving: Least usual ratio of an update to the weights: smaller ones explain it.
    """

    least: int = 150
    patience: int = 500
    epochs: int = 3
    share: float = 0.99
    learned: float = 0.96
    moving: float = 1e-5

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Compare the validation losses, or else the last training losses, with the constant answer."""
        baseline, losses, update = evidence.baseline, finite(evidence.losses), evidence.typical_update
        if baseline is None or evidence.steps < self.least or len(losses) < self.epochs:
            return []
        if update is not None and update < self.moving:
            return []
        where, reached = "training", statistics.fmean(losses[-max(1, len(losses) // 5) :])
        slope, error = line(losses)
        learns = -slope > 3 * error and reached < self.learned * baseline.loss
        if not learns and evidence.steps < self.patience:
            return []
        judged = finite(metrics.get("val_loss", math.nan) for metrics in evidence.epochs)
        if len(judged) >= self.epochs:
            where, reached = "validation", min(judged)
        elif learns or judged:
            return []
        if reached < self.share * baseline.loss:
            return []
        best = " at best" if where == "validation" else ""
        hint = (
            "Check that inputs and targets belong together (shuffled apart? another order of the files?), that the inputs reach"
            " the output, and that a few examples can be learnt by heart."
        )
        return [
            Finding(
                "at-chance",
                None,
                f"After {evidence.steps} steps the {where} loss is {reached:.4g}{best}, and always answering {baseline.answer}"
                f" costs {baseline.loss:.4g}.",
                hint,
                ((f"{where} loss", reached), ("loss of a constant answer", baseline.loss)),
            )
        ]


@final
@dataclass(frozen=True)
class TargetsNotScaled:
    """Quantities far from 0 or 1, to which a model has still to climb after many steps.

    Attributes:
        least: Least number of steps.
        large: Mean or standard deviation of the targets that is called large; fresh outputs are about 1.
        worse: How many times the cost of the constant answer the loss is.
    """

    least: int = 40
    large: float = 10.0
    worse: float = 1.5

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Compare the last losses with those of a constant answer; a training that ended early has shown enough."""
        baseline, losses = evidence.baseline, finite(evidence.losses)
        if baseline is None or baseline.mean is None or baseline.deviation is None:
            return []
        if not losses or (evidence.steps < self.least and evidence.not_finite is None):
            return []
        _, last = ends(losses)
        if last is None or max(baseline.mean, baseline.deviation) < self.large or last < self.worse * baseline.loss:
            return []
        return [
            Finding(
                "targets-not-scaled",
                None,
                f"The loss is {last:,.4g}, where always answering {baseline.answer} costs {baseline.loss:,.4g}: the targets have "
                f"mean {baseline.mean:.4g} and standard deviation {baseline.deviation:.4g}, and outputs begin near 0.",
                "Standardise the targets, (y - y.mean()) / y.std() of the training data, and undo it in predictions.",
                (("loss", last), ("loss of a constant answer", baseline.loss)),
            )
        ]


@final
@dataclass(frozen=True)
class RateDecayed:
    """A schedule that has made the steps tiny within the first epoch, before anything was learned.

    Attributes:
        least: Least number of steps.
        pace: Learning rate relative to the highest so far that is called tiny.
        fallen: Share of the first loss above which nothing was learned.
    """

    least: int = 20
    pace: float = 0.02
    fallen: float = 0.95

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Compare the learning rate with its highest value, and the losses with the first ones."""
        if evidence.steps < self.least or evidence.epochs or evidence.pace >= self.pace:
            return []
        first, last = ends(evidence.losses)
        if first is None or last is None or not self.fallen * first <= last <= first / self.fallen:
            return []
        return [
            Finding(
                "rate-decayed",
                None,
                f"The learning rate has fallen from {evidence.highest_rate:.3g} to {evidence.rate:.3g} before the end of the first"
                f" epoch, and the loss is still {last:.4g}, after {first:.4g} at first.",
                "Let the schedule decay more slowly: does it move after every step where an epoch was meant?",
                (("highest learning rate", evidence.highest_rate), ("learning rate", evidence.rate)),
            )
        ]


@final
@dataclass(frozen=True)
class EqualUnits:
    """Layers of which all units have the same weights, so that they learn the same."""

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Check the weights as a look at the layers has found them."""
        found = [
            layer
            for layer in evidence.layers("parameters")
            if evidence.recent(layer, "parameters", "equal") == 1.0
            and (evidence.recent(layer, "parameters", "zeros") or 0.0) < 1.0
        ]
        if not found:
            return []
        return [
            Finding(
                "equal-units",
                found[0],
                f"All of its units have the same weights{_too(found)}: they compute the same and stay alike.",
                "Initialise it with random numbers (nn.init.kaiming_uniform_), not with a constant.",
                (("layers of equal units", len(found)), ("layers", len(evidence.layers("parameters")))),
            )
        ]


@final
@dataclass(frozen=True)
class SmallWeights:
    """Several layers with weights so small that signals and gradients die out.

    Attributes:
        scale: Root mean square of a weight times the root of its inputs, below which it is small: 0.6 to 1.4 are usual, and
            transformers begin at 0.1.
        layers: Least number of such layers; a single one, such as a head that begins at almost 0, learns.
    """

    scale: float = 0.01
    layers: int = 2

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Check the weights as a look at the layers has found them; weights of 0 are another kind."""
        scales = {layer: evidence.recent(layer, "parameters", "scale") for layer in evidence.layers("parameters")}
        small = [layer for layer, scale in scales.items() if scale is not None and 0.0 < scale < self.scale]
        if len(small) < self.layers:
            return []
        scale = scales[small[0]] or 0.0
        return [
            Finding(
                "small-weights",
                small[0],
                f"Its weights are about {scale:.1e} times what keeps the size of a signal{_too(small)}: little of the input "
                "reaches the output, and next to no gradient comes back.",
                "Initialise it as torch does, or with nn.init.kaiming_normal_.",
                (("scale of the weights", scale), ("usual, about", 1.0)),
            )
        ]


@final
@dataclass(frozen=True)
class NoGradient:
    """Layers that run and are to be trained, and get no gradient."""

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Report the first layer that a look at the layers has found without a gradient."""
        missing = evidence.layers("parameter_gradients")
        missing = [layer for layer in missing if evidence.recent(layer, "parameter_gradients", "missing") == 1.0]
        if not missing:
            return []
        return [
            Finding(
                "no-gradient",
                missing[0],
                f"It runs, and no gradient reaches it{_too(missing)}: it stays as it was drawn.",
                "Look for detach(), torch.no_grad(), .data or a conversion to NumPy behind it; if that is intended, "
                "requires_grad_(False) says so.",
                (("layers without a gradient", len(missing)), ("layers", len(evidence.kinds))),
            )
        ]


def _too(layers: Sequence[str]) -> str:
    others = len(layers) - 1
    return "" if not others else ", and another layer's too" if others == 1 else f", and those of {others} others too"
