"""How every single layer is doing at the moment: the rules of a diagnosis, which name the worst, read layer by layer."""

from __future__ import annotations

import math

from pnne_nb.inspector.diagnosis import DeadReLU, ExplodingGradients, SaturatedActivations, VanishingGradients
from pnne_nb.inspector.evidence import Evidence
from pnne_nb.protocol.messages import Ailment


def ailments(evidence: Evidence) -> dict[str, Ailment]:
    """Return what is wrong, by layer; of several things, the one that explains the others."""
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
    return {**found, **_not_finite(evidence)}


def _not_finite(evidence: Evidence) -> dict[str, Ailment]:
    """What the last observation of each layer says."""
    found: dict[str, Ailment] = {}
    if evidence.norms:
        for layer, norm in evidence.norms[-1].norms.items():
            if not math.isfinite(norm):
                found[layer] = Ailment("notFinite", "Its gradient is NaN or infinite.")
    for (layer, quantity), frames in evidence.statistics.items():
        last = frames[-1].values
        if quantity == "activations" and (last.get("nan") or last.get("inf")):
            found[layer] = Ailment("notFinite", "Its output has NaN or infinite values.")
    return found
