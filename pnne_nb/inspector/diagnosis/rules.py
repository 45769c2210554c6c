"""``pn.diagnose``: applies rules to the frames of a training. The rules read nothing but `Evidence`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from torch import nn

from pnne_nb.errors import ArgumentError, expect, shown
from pnne_nb.inspector.diagnosis.causes import rank
from pnne_nb.inspector.diagnosis.evidence import Evidence, Finding, Rule, gather
from pnne_nb.inspector.diagnosis.layer_rules import (
    DeadReLU,
    ExplodingGradients,
    NotFinite,
    SaturatedActivations,
    UpdateRatio,
    VanishingGradients,
    ZeroWeights,
)
from pnne_nb.inspector.diagnosis.loss_rules import Divergence, LossNotDecreasing, Oscillation, Overfitting, SlowProgress
from pnne_nb.protocol.messages import Ailment
from pnne_nb.telemetry.frames import AnomalyFrame, Frame

__all__ = [
    "RULES",
    "DeadReLU",
    "Divergence",
    "ExplodingGradients",
    "Finding",
    "LossNotDecreasing",
    "NotFinite",
    "Oscillation",
    "Overfitting",
    "Rule",
    "SaturatedActivations",
    "SlowProgress",
    "UpdateRatio",
    "VanishingGradients",
    "ZeroWeights",
    "as_rules",
    "diagnose",
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
    Oscillation(),
    SlowProgress(),
    Overfitting(),
)
"""The rules with their default thresholds."""


@runtime_checkable
class Recorded(Protocol):
    """The history of a training."""

    def frames(self) -> Iterable[Frame]:
        """Return what was measured, as frames."""


@runtime_checkable
class TrainedEngine(Protocol):
    """A training with its model."""

    @property
    def history(self) -> Recorded: ...

    @property
    def module(self) -> nn.Module: ...


def diagnose(
    source: TrainedEngine | Recorded | nn.Module, frames: Iterable[Frame] | None = None, rules: Iterable[Rule] = RULES
) -> list[Finding]:
    """Diagnose a training: what is wrong, where and why, and what to try.

    ::

        pn.diagnose(engine)              # a training so far, running or not
        pn.diagnose(engine.history)      # or a copy of its history
        pn.diagnose(model, live.frames)  # frames of an inspector

    A history holds losses, metrics, the total gradient norm and the events of the training. Statistics of layers exist only
    in the frames of an attached inspector, which diagnoses them while it watches.

    Args:
        source: An engine, a history, or the module that `frames` are about.
        frames: Frames of a training (``inspector.live()``, the engine's channel) or of one inspection; only with a module.
        rules: The rules to apply; replace one to change its thresholds.

    Returns:
        The events of the training that have a hint and the findings of the rules, the most probable cause first. Each kind
        appears once per layer.

    Raises:
        ArgumentError: If `source` has another type, `frames` are missing or invalid, or `rules` are invalid.
    """
    told: list[Finding] = []
    extra = "" if frames is None else " with frames"
    if isinstance(source, nn.Module):
        expect(frames, Iterable, "frames", "the frames of a training, such as live.frames")
        evidence = gather(source, frames or ())
    elif frames is not None or not isinstance(source, TrainedEngine | Recorded):
        raise ArgumentError(
            f"diagnose takes an engine, a history, or a module with frames about it, not {shown(source)}{extra}. "
            "inspector.diagnose() says what an inspector has seen."
        )
    else:
        model = source.module if isinstance(source, TrainedEngine) else None
        recorded = source.history if isinstance(source, TrainedEngine) else source
        seen = list(recorded.frames())
        evidence = gather(model, seen)
        told = [
            Finding(frame.kind, frame.node, frame.message, frame.hint, frame.evidence)
            for frame in seen
            if isinstance(frame, AnomalyFrame) and frame.hint
        ]
    found: dict[tuple[str, str | None], Finding] = {}
    for finding in (*told, *(finding for rule in as_rules(rules) for finding in rule.find(evidence))):
        found.setdefault((finding.kind, finding.layer), finding)
    return sorted(found.values(), key=lambda finding: rank(finding.kind))


def as_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return `rules` as a tuple.

    Raises:
        ArgumentError: If one of them is not a rule.
    """
    expect(rules, Iterable, "rules", "several rules", "RULES has them all.")
    listed = tuple(rules)
    for rule in listed:
        if isinstance(rule, type) or not isinstance(rule, Rule):
            raise ArgumentError(f"rules holds {shown(rule)}: give rules such as ExplodingGradients(limit=100).")
    return listed


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
