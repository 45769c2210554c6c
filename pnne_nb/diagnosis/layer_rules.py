"""Rules about single layers: gradients, activations and weight updates.

Each rule is a frozen value with thresholds. Thresholds without a cited source were chosen between what the healthy and
the broken trainings of the tests show.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import final

from pnne_nb.diagnosis.evidence import RECENT, Evidence, beginning, earliest_frame, ends, median
from pnne_nb.diagnosis.finding import Finding
from pnne_nb.telemetry.frames import Evidence as Numbers


@final
@dataclass(frozen=True)
class NotFinite:
    """Finds the layer with the first NaN or infinite values."""

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Check activations in the model's order, then gradients in reverse order, then the loss."""
        frame = earliest_frame(evidence, "activations", backwards=False)
        if frame is not None:
            reason = f"Its output has {_count(frame.values)}{_at(frame.step)}, first of all layers."
            hint = (
                "Look at its inputs: a division by zero, the log or root of a negative number, an overflow in half"
                " precision, or a learning rate that is too high."
            )
            return [Finding("not-finite", frame.layer, reason, hint, _counts(frame.values))]
        if evidence.not_finite is not None and evidence.observed(evidence.not_finite, "activations"):
            # Non-finite gradients are a consequence.
            reason = (
                f"The loss is NaN or infinite{_at(evidence.not_finite)}, while the outputs of the watched layers are"
                " finite: the value arises outside of them, most probably in the loss function."
            )
            hint = "Look at the target, and at what the loss takes the log or the root of, or divides by."
            return [Finding("not-finite", None, reason, hint)]
        gradients = earliest_frame(evidence, "gradients", backwards=True)
        if gradients is not None:
            return [_bad_gradient(gradients.layer, f"has {_count(gradients.values)}", gradients.step)]
        bad = [norms for norms in evidence.norms if not math.isfinite(norms.total)]
        if bad:
            layers = [name for name, norm in bad[0].norms.items() if not math.isfinite(norm)]
            # The backward pass runs in reverse order.
            return [_bad_gradient(layers[-1] if layers else None, "is NaN or infinite", bad[0].step)]
        if evidence.not_finite is not None:
            reason = f"The loss is NaN or infinite from step {evidence.not_finite} on."
            hint = "Check the data and the targets for NaN, lower the learning rate, clip gradients."
            return [Finding("not-finite", None, reason, hint)]
        return []


def _at(step: int) -> str:
    """Return " at step …", or nothing for an inspection outside a training."""
    return f" at step {step}" if step else ""


def _bad_gradient(layer: str | None, what: str, step: int) -> Finding:
    return Finding(
        "not-finite",
        layer,
        f"Its gradient {what}{_at(step)}, while the outputs are finite.",
        "Check the loss for log(0), division by zero and sqrt at 0; clip gradients; lower the learning rate.",
    )


@final
@dataclass(frozen=True)
class ExplodingGradients:
    """Gradient norms above `limit` in most of the last observations.

    Attributes:
        limit: Euclidean norm of the gradient of a layer's own parameters. For comparison, Pascanu et al. 2013
            (arXiv:1211.5063) clip at norms from 1 to some tens.
    """

    limit: float = 1000.0

    def norms(self, evidence: Evidence) -> dict[str, float]:
        """Return the norms above the limit, by layer."""
        return {layer: norm for layer, norm in evidence.recent_norms().items() if norm > self.limit}

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Report only the layer with the largest norm: the others follow from it."""
        large = self.norms(evidence)
        if not large:
            return []
        (worst, norm), *_ = shown = _most(large, largest=True)
        return [
            Finding(
                "exploding-gradients",
                worst,
                f"The norm of its gradient is {norm:.3g}, above {self.limit:g}{_too(len(large) - 1, 'above it')}.",
                "Clip gradients, lower the learning rate, scale the data, or initialise with smaller weights.",
                (*_named(shown), ("limit", self.limit)),
            )
        ]


@final
@dataclass(frozen=True)
class VanishingGradients:
    """Gradient norms below `limit` before the training has converged.

    Attributes:
        limit: Euclidean norm of the gradient of a layer's own parameters.
        converged: A loss below this share of its first value counts as converged; small gradients are then normal.
    """

    limit: float = 1e-6
    converged: float = 0.1

    def norms(self, evidence: Evidence) -> dict[str, float]:
        """Return the norms below the limit, by layer; none if the loss has converged."""
        total = median(frame.total for frame in evidence.norms[-RECENT:])
        if total is None:
            return {}
        began, (_, last) = beginning(evidence.losses), ends(evidence.losses)
        limit = self.limit
        if began is not None and last is not None:
            if last < self.converged * began:
                return {}
            if len(evidence.losses) == 1:
                # One observation does not show where the loss began, and at a minimum all gradients are small.
                limit *= min(1.0, abs(last))
                if 0.0 < total < self.limit:
                    return {}
        return {layer: norm for layer, norm in evidence.recent_norms().items() if norm < limit}

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Report the first such layer: gradients vanish towards the input."""
        norms = self.norms(evidence)
        if not norms:
            return []
        layer, norm = next(iter(norms.items()))
        return [
            Finding(
                "vanishing-gradients",
                layer,
                f"The norm of its gradient is {norm:.3g}, below {self.limit:g}{_too(len(norms) - 1, 'below it')}.",
                "Use ReLU-like activations instead of saturating ones, normalisation, residual connections, or a"
                " better initialisation; check that nothing on the way is detached.",
                (*_named(_most(norms, largest=False)), ("limit", self.limit)),
            )
        ]


_USUAL = 1e-3
"""Usual ratio of an update to the weights (Karpathy, CS231n)."""
_PACE = 1e-2
"""Learning rate relative to the highest so far below which a schedule has ended the training on purpose."""
_CONVERGED = 0.1
"""Share of the first loss below which a training has converged."""
_FEW = 10
"""Losses whose median says where the loss is, at least."""
_GROWN = 1.5
_FALLEN = 0.7
"""Shares of the first loss from which on a single large update is called harmful: at the beginning, and later."""
_SHOWN = 3
"""Number of layers whose values are given as evidence."""
_RECTIFIERS = frozenset({"ReLU", "ReLU6", "Threshold", "relu", "relu6", "threshold"})


@final
@dataclass(frozen=True)
class DeadReLU:
    """Rectifiers whose output is 0 nearly everywhere, or most of whose units never fire.

    Attributes:
        zeros: Share of the outputs that are 0. It is a half at initialisation, and 50 to 90 % in networks that learn
            (Glorot et al. 2011, "Deep sparse rectifier neural networks").
        dead: Share of the units that are 0 for every example and position.
    """

    zeros: float = 0.97
    dead: float = 0.5

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Check the share of zeros, and the dead units if they were counted."""
        found = []
        for layer in evidence.layers("activations"):
            if evidence.kinds[layer] not in _RECTIFIERS:
                continue
            zeros = evidence.recent(layer, "activations", "zeros")
            dead = evidence.recent(layer, "activations", "dead")
            if (zeros is None or zeros < self.zeros) and (dead is None or dead < self.dead):
                continue
            units = f", and {dead:.0%} of its units never fire" if dead is not None else ""
            shares = ("outputs that are 0", zeros), ("units that never fire", dead), ("all", 1.0)
            found.append(
                Finding(
                    "dead-relu",
                    layer,
                    f"{zeros or 0.0:.1%} of its outputs are 0{units}.",
                    "Check the bias and the initialisation of the layer before it, normalise its input, or use LeakyReLU or"
                    " GELU; where it died while training, begin again with smaller steps.",
                    tuple((name, share) for name, share in shares if share is not None),
                )
            )
        return found


@final
@dataclass(frozen=True)
class SaturatedActivations:
    """Bounded activations whose outputs are mostly near their bounds; the model's last activation is exempt.

    Attributes:
        share: Share of the outputs that are within 3 % of the range from a bound.
    """

    share: float = 0.8

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Check the share of elements near a bound, as the probes count it."""
        inner = evidence.layers("activations")[:-1]
        shares = {layer: evidence.recent(layer, "activations", "saturation") for layer in inner}
        return [
            Finding(
                "saturated-activations",
                layer,
                f"{share:.0%} of the outputs of this {evidence.kinds[layer]} are at its bounds, where its gradient"
                " is nearly 0.",
                "Scale the data, initialise with smaller weights, normalise its input, or use an unbounded activation.",
                (("outputs at a bound", share), ("all", 1.0)),
            )
            for layer, share in shares.items()
            if share is not None and share >= self.share
        ]


@final
@dataclass(frozen=True)
class UpdateRatio:
    """Updates that are too large or too small relative to the weights.

    The usual ratio is about 0.001 (Karpathy, CS231n, "Ratio of weights:updates"). The thresholds are a factor of 200 or
    more away from it, because biases and normalisation begin near 0 and change relatively more.

    Attributes:
        low: Ratio of the Euclidean norms of update and weights below which updates are too small. It is multiplied by the
            learning rate relative to the highest so far.
        high: Ratio above which updates are too large.
        least: Least number of observations.
        begun: First steps in which large updates are harmless while the loss falls, as those of Adagrad are.
        settled: Steps after which an update may be called small: a schedule may begin at 0.
    """

    low: float = 1e-6
    high: float = 0.2
    least: int = 5
    begun: int = 20
    settled: int = 0

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Report the worst layer of each kind and the number of others; unchanged weights come first."""
        seen = {layer: evidence.statistics[layer, "updates"] for layer in evidence.layers("updates")}
        if not seen:
            return []
        medians = {
            layer: evidence.recent(layer, "updates", "ratio") for layer in seen if len(seen[layer]) >= self.least
        }
        ratios = {layer: ratio for layer, ratio in medians.items() if ratio is not None}
        began, (_, last) = beginning(evidence.losses), ends(evidence.losses)
        # At the end of learning, gradients are small, and so are updates; none is exactly 0 for that.
        ended = began is not None and last is not None and 0 <= last < _CONVERGED * began
        late = [layer for layer in ratios if evidence.pace > _PACE and seen[layer][-1].step >= self.settled]
        still = [layer for layer in late if all(one.values.get("ratio") == 0.0 for one in seen[layer])]
        low = self.low * evidence.pace
        slow = {layer: ratios[layer] for layer in late if not ended and ratios[layer] < low and layer not in still}
        fast = {layer: ratio for layer, ratio in ratios.items() if ratio > self.high and self._harms(evidence, layer)}
        found = []
        if still:
            found.append(
                Finding(
                    "unchanged-weights",
                    still[0],
                    f"Its weights have not changed at all{_others(still)}.",
                    "Check that the optimizer has its parameters, that the loss depends on it, and that the learning"
                    " rate is not 0.",
                    (("layers that have not changed", len(still)), ("layers that are watched", len(ratios))),
                )
            )
        if slow:
            (worst, ratio), *_ = shown = _most(slow, largest=False)
            found.append(
                Finding(
                    "update-ratio-low",
                    worst,
                    f"A step changes its weights by {ratio:.1e} of their size{_others(slow)}; about 1e-3 is usual.",
                    "Raise the learning rate, or look for vanishing gradients.",
                    (*_named(shown), ("usual", _USUAL)),
                )
            )
        if fast:
            (worst, ratio), *_ = shown = _most(fast, largest=True)
            found.append(
                Finding(
                    "update-ratio-high",
                    worst,
                    f"A step changes its weights by {ratio:.1%} of their size{_others(fast)}; about 0.1 % is usual.",
                    "Lower the learning rate, warm it up, or clip gradients.",
                    (*_named(shown), ("usual", _USUAL)),
                )
            )
        return found

    def _harms(self, evidence: Evidence, layer: str) -> bool:
        """Return whether most recent observations come after the first steps, or the loss has not fallen in them.

        A single observation shows less: then the loss must have grown, or later not have fallen far.
        """
        recent = evidence.statistics[layer, "updates"][-RECENT:]
        begun = statistics.median(frame.step for frame in recent) > self.begun
        if begun and self.least > 1:
            return True
        now = median(evidence.losses[-max(_FEW, self.least) :])
        if now is None:
            return False
        if self.least > 1:
            return now >= evidence.losses[0]
        worse = evidence.baseline is None or now > evidence.baseline.loss
        return worse and now >= (_FALLEN if begun else _GROWN) * min(
            evidence.early[0], median(evidence.early[:3]) or math.inf
        )


@final
@dataclass(frozen=True)
class ZeroWeights:
    """Layers whose parameters are all 0, so that their units stay equal to each other."""

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Check the last observation of the parameters."""
        return [
            Finding(
                "zero-weights",
                layer,
                "All of its parameters are 0.",
                "Initialise it with random numbers, or check what loaded or reset it.",
                (("weights that are 0", 1.0), ("all", 1.0)),
            )
            for layer in evidence.layers("parameters")
            if evidence.recent(layer, "parameters", "zeros") == 1.0
        ]


def _most(values: Mapping[str, float], *, largest: bool) -> list[tuple[str, float]]:
    """Return the largest or smallest of `values`, by layer."""
    return sorted(values.items(), key=lambda item: -item[1] if largest else item[1])[:_SHOWN]


def _named(values: Sequence[tuple[str, float]]) -> Numbers:
    return tuple((layer or "the model", value) for layer, value in values)


def _too(others: int, where: str) -> str:
    return (
        "" if not others else f"; another layer is {where} too" if others == 1 else f"; {others} others are {where} too"
    )


def _others(layers: Sized) -> str:
    others = len(layers) - 1
    return "" if not others else " (as those of another layer)" if others == 1 else f" (as those of {others} others)"


def _counts(values: Mapping[str, float]) -> Numbers:
    return tuple((word, values[name]) for name, word in (("nan", "NaN"), ("inf", "infinite")) if values.get(name))


def _count(values: dict[str, float]) -> str:
    return f"{' and '.join(f'{count:.0f} {word}' for word, count in _counts(values))} values"
