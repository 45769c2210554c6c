"""The exercise of the lesson about what a network looks at: teach other digits to filters that stay as they are."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn

from pnne_nb.lessons.exercise import Exercise, NotYetError, share_right, training_of

READS: Final = 0.85
"""Share of unseen digits that counts as reading."""


def exercise(first: nn.Module, images: Tensor, digits: Tensor) -> Exercise:
    """Return the exercise.

    Args:
        first: The network whose filters are used again, as it is now.
        images: Of the other digits, which no training has seen, `[N, 1, 8, 8]`.
        digits: Which of the other digits each is, from 0, `[N]`.
    """
    filters = {
        f"{layer}.{name}": values.detach().cpu().clone()
        for layer, module in first.named_modules()
        if isinstance(module, nn.Conv2d)
        for name, values in module.named_parameters(recurse=False)
    }

    def judge(answer: object) -> str:
        engine = training_of(answer)
        share = share_right(engine, images, digits, "pictures of 8 x 8 and give five scores")
        own = engine.model.state_dict()
        for name, values in filters.items():
            if name not in own or own[name].shape != values.shape:
                raise NotYetError(f"The net has no {name} of the size that the first one has: keep its filters.")
            if not torch.equal(own[name].cpu(), values):
                raise NotYetError(f"{name} is not that of the first network: start with it, and keep it as it is.")
        if not engine.progress.step:
            raise NotYetError("This network was not trained yet: engine.start(), and engine.wait().")
        if share < READS:
            raise NotYetError(f"It reads {share:.0%} of the unseen digits; {READS:.0%} are wanted.")
        return f"With the filters of the first network, it reads {share:.0%} of digits that these have never seen."

    return Exercise(
        judge,
        (
            "Two things are needed: start with the weights of the first training, and keep the filters as they are.",
            "An engine takes other weights to start with by one of its arguments; graph.unfreeze has a counterpart.",
            "See the page on freezing layers: docs/howto/freeze.md.",
        ),
    )
