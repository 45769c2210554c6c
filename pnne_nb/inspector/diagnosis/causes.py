"""Ranks findings: causes come before what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CAUSES: Final = (
    # What the data are, and how they are compared.
    "constant-target",
    "constant-input",
    "classes-under-distance",
    "softmax-before-loss",
    "sigmoid-before-loss",
    "targets-out-of-range",
    "spread-targets",
    # How the model is made.
    "batch-norm-in-eval",
    "zero-weights",
    "not-trained",
    "frozen-layer",
    "large-input",
    # How it is trained.
    "weight-decay-dominates",
    "momentum-dominates",
    "clipping-dominates",
    "tiny-batch-norm",
    "first-loss-high",
    # What a person may want so.
    "one-class",
    "validation-scaled-otherwise",
    "validation-in-training",
    "class-not-trained",
    "constant-column",
    # What follows from these, and from a learning rate that does not fit.
    "nan-loss",
    "nan-gradient",
    "not-finite",
    "divergence",
    "update-ratio-high",
    "exploding-gradients",
    "oscillation",
    "saturated-activations",
    "dead-relu",
    "unchanged-weights",
    "vanishing-gradients",
    "update-ratio-low",
    "slow-progress",
    "loss-not-decreasing",
    "overfitting",
    "nan-validation",
)
"""Kinds of findings, the most probable cause first. `scripts/fault_rules.py` measures how often that is right."""

HEALTHY: Final = 600
"""Healthy trainings of `scripts/fault_rules.py`: half with everything watched, half with the dashboard's default settings."""
FALSE_ALARMS: Final[Mapping[str, int]] = {}
"""How many of them were accused, by kind of finding; of a kind that is not here, none."""

_RANKS: Final = {kind: rank for rank, kind in enumerate(CAUSES)}


def rank(kind: str) -> int:
    """Return the rank of a kind of finding: findings of smaller ranks explain those of larger ones."""
    return _RANKS.get(kind, len(CAUSES))


def is_finding(kind: str) -> bool:
    """Return whether it says what is wrong with a training, and not what has happened to it."""
    return kind in _RANKS


def false_alarms(kind: str) -> str | None:
    """Say how often a kind of finding was wrong where all was well, as measured; None of what is no finding."""
    if not is_finding(kind):
        return None
    return f"False alarms: {FALSE_ALARMS.get(kind, 0)} in {HEALTHY} healthy trainings."
