"""`RULES`: all rules about trainings, which read nothing but `Evidence`."""

from __future__ import annotations

import math

from pnne_nb.diagnosis.evidence import Evidence
from pnne_nb.diagnosis.finding import Rule
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
from pnne_nb.protocol.messages import Ailment

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
    "ailments",
]

RULES: tuple[Rule, ...] = (
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
)
"""The rules with their default thresholds."""


def ailments(evidence: Evidence) -> dict[str, Ailment]:
    """Return one ailment per layer, the one that explains the others."""
    found: dict[str, Ailment] = {}
    for finding in SaturatedActivations().find(evidence):
        found[finding.layer or ""] = Ailment("saturated", finding.reason)
    for finding in DeadReLU().find(evidence):
        found[finding.layer or ""] = Ailment("dead", finding.reason)
    vanishing, exploding = VanishingGradients(), ExplodingGradients()
    for layer, norm in vanishing.norms(evidence).items():
        found[layer] = Ailment("vanishing", f"The norm of its gradient is {norm:.3g}, below {vanishing.limit:g}.")
    for layer, norm in exploding.norms(evidence).items():
        found[layer] = Ailment("exploding", f"The norm of its gradient is {norm:.3g}, above {exploding.limit:g}.")
    # The last observation has NaN or infinite values.
    if evidence.norms:
        for layer, norm in evidence.norms[-1].norms.items():
            if not math.isfinite(norm):
                found[layer] = Ailment("notFinite", "Its gradient is NaN or infinite.")
    for (layer, quantity), frames in evidence.statistics.items():
        last = frames[-1].values
        if quantity == "activations" and (last.get("nan") or last.get("inf")):
            found[layer] = Ailment("notFinite", "Its output has NaN or infinite values.")
    return found
