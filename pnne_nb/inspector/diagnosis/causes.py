"""Ranks findings: causes come before what follows from them."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Final

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

MEASURED: Final = Path(__file__).with_name("false_alarms.json")
"""Counts of false alarms by kind, in how many healthy trainings, with which version and when.
``scripts/fault_rules.py --write`` makes the file. A kind without a row was not measured."""

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
    measured = _measured()
    count = measured["false_alarms"].get(kind)
    if count is None:
        return "False alarms: not measured yet."
    return f"False alarms: {count} in {measured['healthy']} healthy trainings."


@functools.cache
def _measured() -> Any:
    return json.loads(MEASURED.read_text(encoding="utf-8"))
