"""Rules that read frames and say what is wrong, where, why, and what to try.

None looks at anything but `Evidence`. They are meant to be quiet on healthy trainings.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from pnne_nb.errors import ArgumentError, expect, shown
from pnne_nb.frames import Frame
from pnne_nb.inspector.evidence import gather
from pnne_nb.inspector.findings import Finding, Rule
from pnne_nb.inspector.layer_rules import (
    DeadReLU,
    ExplodingGradients,
    NotFinite,
    SaturatedActivations,
    UpdateRatio,
    VanishingGradients,
    ZeroWeights,
)
from pnne_nb.inspector.loss_rules import Divergence, LossNotDecreasing, Overfitting

__all__ = [
    "RULES",
    "DeadReLU",
    "Divergence",
    "ExplodingGradients",
    "Finding",
    "LossNotDecreasing",
    "NotFinite",
    "Overfitting",
    "Rule",
    "SaturatedActivations",
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
