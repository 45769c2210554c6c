"""`RULES`: all rules about trainings, which read nothing but `Evidence`."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Iterable
from typing import Final, final, get_args

from pnne_nb.diagnosis.evidence import Evidence
from pnne_nb.diagnosis.finding import KINDS, Advice, Finding, Kind, Rule, declare
from pnne_nb.diagnosis.layer_rules import (
    DeadReLU,
    ExplodingGradients,
    NotFinite,
    SaturatedActivations,
    UpdateRatio,
    VanishingGradients,
    ZeroWeights,
)
from pnne_nb.diagnosis.level_rules import AtChance, EqualUnits, NoGradient, RateDecayed, SmallWeights, TargetsNotScaled
from pnne_nb.diagnosis.loss_rules import Divergence, LossNotDecreasing, Oscillation, Overfitting, SlowProgress
from pnne_nb.errors import ArgumentError, choose, expect, near, registers, shown
from pnne_nb.protocol.messages import LayerFault

__all__ = [
    "RULES",
    "AtChance",
    "DeadReLU",
    "Divergence",
    "EqualUnits",
    "ExplodingGradients",
    "LossNotDecreasing",
    "NoGradient",
    "NotFinite",
    "Oscillation",
    "Overfitting",
    "RateDecayed",
    "SaturatedActivations",
    "SlowProgress",
    "SmallWeights",
    "TargetsNotScaled",
    "UpdateRatio",
    "VanishingGradients",
    "ZeroWeights",
    "layer_faults",
    "register_rule",
]

logger = logging.getLogger(__name__)

RULES: list[Rule] = [
    NotFinite(),
    ExplodingGradients(),
    VanishingGradients(),
    DeadReLU(),
    SaturatedActivations(),
    UpdateRatio(),
    ZeroWeights(),
    EqualUnits(),
    SmallWeights(),
    NoGradient(),
    TargetsNotScaled(),
    RateDecayed(),
    AtChance(),
    LossNotDecreasing(),
    Divergence(),
    Oscillation(),
    SlowProgress(),
    Overfitting(),
]
"""The rules with their default thresholds, and those that `register_rule` has added."""

_BUILT_IN: Final = frozenset(KINDS)

Find = Callable[[Evidence], Iterable[Finding]]


def register_rule(
    kind: str, *, before: str | None = None, advice: Advice = "", by_layer: bool = False
) -> Callable[[Find], Find]:
    """Return a decorator that adds a rule to those that judge every training, while it runs and in `pn.diagnose`.

    What is decorated takes the evidence and yields findings of the kind; it yields nothing where all is well or too
    little is known::

        @pn.register_rule("negative-loss", before="overfitting")
        def negative(evidence):
            if evidence.losses and evidence.losses[-1] < 0:
                yield pn.Finding("negative-loss", None, "The loss is below 0.", "Look at its sign.")

    Its docstring is what ``pn.explain(kind)`` says. Its findings say that their false alarms were not measured. A rule that
    raises is left out, and logged once. Registering a kind again replaces its rule.

    Args:
        kind: The kind of its findings, a name such as ``"negative-loss"``.
        before: The kind that it is a more probable cause than; the least probable cause of all if None.
        advice: What its hint advises about the learning rate: ``"raise"``, ``"lower"`` or nothing.
        by_layer: Whether each layer has a finding of its own.

    Raises:
        ArgumentError: The kind is one of this package's, `before` is no kind, or what is decorated cannot be called.
    """
    expect(kind, str, "kind", "the name of a kind of findings", 'Write @pn.register_rule("negative-loss").')
    if kind in _BUILT_IN:
        raise ArgumentError(f"{kind!r} is a kind that the package finds itself. Give the rule another name.")
    if before is not None and before not in KINDS:
        raise ArgumentError(f"before={shown(before)} is no kind of finding.{near(before, KINDS)}")
    choose(advice, get_args(Advice), "advice")

    def keep(find: Find) -> None:
        cause = inspect.getdoc(find) or "A rule of your own finds it, and has no docstring that says why."
        declare(Kind(kind, advice, by_layer=by_layer, cause=cause), before)
        RULES[:] = [rule for rule in RULES if not (isinstance(rule, _Registered) and rule.kind == kind)]
        RULES.append(_Registered(kind, find))

    return registers(keep, "takes the evidence")


@final
class _Registered:
    """A rule from outside, which cannot end a training: its first error is logged."""

    def __init__(self, kind: str, find: Find) -> None:
        self.kind = kind
        self._find = find
        self._failed = False

    def find(self, evidence: Evidence) -> list[Finding]:
        try:
            found = list(self._find(evidence))
            for finding in found:
                if getattr(finding, "kind", None) != self.kind:  # whatever the function yields
                    raise ArgumentError(f"It yields {shown(finding)}, not pn.Finding({self.kind!r}, …).")
        except Exception:
            if not self._failed:
                logger.exception("The rule %r failed and was left out.", self.kind)
            self._failed = True
            return []
        return found


def layer_faults(evidence: Evidence) -> dict[str, LayerFault]:
    """Return one fault per layer, the one that explains the others."""
    found: dict[str, LayerFault] = {}
    for finding in SaturatedActivations().find(evidence):
        found[finding.layer or ""] = LayerFault("saturated", finding.reason)
    for finding in DeadReLU().find(evidence):
        found[finding.layer or ""] = LayerFault("dead", finding.reason)
    vanishing, exploding = VanishingGradients(), ExplodingGradients()
    for layer, norm in vanishing.norms(evidence).items():
        found[layer] = LayerFault("vanishing", f"The norm of its gradient is {norm:.3g}, below {vanishing.limit:g}.")
    for layer, norm in exploding.norms(evidence).items():
        found[layer] = LayerFault("exploding", f"The norm of its gradient is {norm:.3g}, above {exploding.limit:g}.")
    # The last observation has NaN or infinite values.
    if evidence.norms:
        for layer, norm in evidence.norms[-1].norms.items():
            if not math.isfinite(norm):
                found[layer] = LayerFault("notFinite", "Its gradient is NaN or infinite.")
    for (layer, quantity), frames in evidence.statistics.items():
        last = frames[-1].values
        if quantity == "activations" and (last.get("nan") or last.get("inf")):
            found[layer] = LayerFault("notFinite", "Its output has NaN or infinite values.")
    return found
