"""Ranks findings: causes come before what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CAUSES: Final = (
    # Data and loss.
    "constant-target",
    "constant-input",
    "classes-under-distance",
    "softmax-before-loss",
    "sigmoid-before-loss",
    "targets-out-of-range",
    "spread-targets",
    # The model.
    "batch-norm-in-eval",
    "zero-weights",
    "not-trained",
    "frozen-layer",
    "large-input",
    # The training loop.
    "weight-decay-dominates",
    "momentum-dominates",
    "clipping-dominates",
    "tiny-batch-norm",
    "first-loss-high",
    # May be intended.
    "one-class",
    "validation-scaled-otherwise",
    "validation-in-training",
    "class-not-trained",
    "constant-column",
    # Consequences of the above, and of a wrong learning rate.
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
"""Kinds of findings, causes before consequences. `scripts/fault_rules.py` measures how often the order is right."""

HEALTHY: Final = 600
"""Healthy trainings of `scripts/fault_rules.py`: half with everything watched, half with the dashboard's default settings."""
FALSE_ALARMS: Final[Mapping[str, int]] = {}
"""Number of healthy trainings with a finding, by its kind; 0 for other kinds."""

_RANKS: Final = {kind: rank for rank, kind in enumerate(CAUSES)}


def rank(kind: str) -> int:
    """Return the rank of a kind of finding: a smaller rank explains a larger one."""
    return _RANKS.get(kind, len(CAUSES))


def is_finding(kind: str) -> bool:
    """Return whether the kind is a diagnosis, not a mere event."""
    return kind in _RANKS


def false_alarms(kind: str) -> str | None:
    """Return a sentence with the measured false alarms of a kind of finding; None for an event."""
    if not is_finding(kind):
        return None
    return f"False alarms: {FALSE_ALARMS.get(kind, 0)} in {HEALTHY} healthy trainings."
