"""The exercises about digits: how few parameters read them, and a network that does not only remember its examples."""

from __future__ import annotations

from typing import Final

import numpy as np
from torch import Tensor

from pnne_nb.lessons.exercise import Exercise, NotYetError, share_right, training_of

READS: Final = 0.85
"""Share of unseen digits that counts as reading."""
FEW: Final = 700
"""Parameters that are accepted as few. Eight neurons have 610."""
GAP: Final = 0.05
"""Difference of the accuracies below which a network does not only remember."""
LAST: Final = 5
"""Epochs over which the accuracy in training is averaged: of sixty digits, one more or less is 0.02."""
LEARNS: Final = 0.75
"""Share of unseen digits that must be read all the same: who knows nothing has no gap either."""
_NEEDS: Final = "64 numbers and give ten scores"


def few_parameters(images: Tensor, digits: Tensor) -> Exercise:
    """Return the exercise about parameters.

    Args:
        images: Digits that no training has seen, `[N, 64]`.
        digits: What they are, `[N]`.
    """

    def judge(answer: object) -> str:
        engine = training_of(answer)
        share = share_right(engine, images, digits, _NEEDS)
        count = sum(parameter.numel() for parameter in engine.model.parameters())
        found = f"{count:,} parameters read {share:.0%} of the unseen digits"
        if not engine.progress.step:
            raise NotYetError("This network was not trained yet: engine.start(), and engine.wait().")
        if share < READS:
            raise NotYetError(f"{found}; {READS:.0%} are wanted.")
        if count > FEW:
            raise NotYetError(f"{found}. That is enough: {FEW} parameters can do it as well.")
        return f"{found}."

    return Exercise(
        judge,
        (
            "Which layer has most of the parameters? Its number of neurons decides.",
            "A layer has a weight for each pair of an input and a neuron, and a bias for each neuron.",
            "With h neurons in the middle there are 64 · h + h + h · 10 + 10 parameters.",
        ),
    )


def small_gap(images: Tensor, digits: Tensor) -> Exercise:
    """Return the exercise about memorising.

    Args:
        images: Digits that no training has seen, `[N, 64]`.
        digits: What they are, `[N]`.
    """

    def judge(answer: object) -> str:
        engine = training_of(answer)
        share = share_right(engine, images, digits, _NEEDS)
        if "train_accuracy" not in engine.history:
            raise NotYetError("This network was not trained for an epoch yet: engine.start(), and engine.wait().")
        known = float(np.mean(engine.history["train_accuracy"][-LAST:]))
        found = f"It reads {known:.0%} in training and {share:.0%} of the unseen digits, a gap of {known - share:.2f}"
        if share < LEARNS:
            raise NotYetError(f"{found}. It is to read {LEARNS:.0%} of the unseen digits.")
        if known - share >= GAP:
            raise NotYetError(f"{found}; less than {GAP} is wanted.")
        return f"{found}."

    return Exercise(
        judge,
        (
            "What would make it harder to remember each example by itself?",
            "Dropout switches neurons off at random in training. How many may be missing, until it no longer learns?",
            "There are more digits in the data than these sixty.",
        ),
    )
