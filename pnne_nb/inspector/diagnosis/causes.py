"""Ranks findings: causes come before what follows from them."""

from __future__ import annotations

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

_RANKS: Final = {kind: rank for rank, kind in enumerate(CAUSES)}


def rank(kind: str) -> int:
    """The place of a kind of finding among those of one training: what has a smaller one explains what has a larger."""
    return _RANKS.get(kind, len(CAUSES))


def is_finding(kind: str) -> bool:
    """Whether it says what is wrong with a training, and not what has happened to it."""
    return kind in _RANKS
