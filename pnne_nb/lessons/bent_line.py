"""The exercise of the lesson about a line that bends: how few neurons separate the two moons?"""

from __future__ import annotations

from typing import Final

from torch import Tensor, nn

from pnne_nb.lessons.exercise import Exercise, NotYetError, share_right, training_of

ENOUGH: Final = 0.97
"""Share of points on the right side that counts as separated; a straight line reaches 0.89."""
FEW: Final = 4
"""Neurons that are accepted as few. Three can do it, and find it seldom from a random start."""


def exercise(points: Tensor, sides: Tensor) -> Exercise:
    """Return the exercise.

    Args:
        points: Of both moons, `[N, 2]`.
        sides: Which moon each is in, 0 or 1, `[N]`.
    """

    def judge(answer: object) -> str:
        engine = training_of(answer)
        share = share_right(engine, points, sides, "two numbers and give two scores")
        layers = [module for module in engine.model.modules() if isinstance(module, nn.Linear)]
        neurons = sum(layer.out_features for layer in layers[:-1])
        found = f"{neurons} neuron{' has' if neurons == 1 else 's have'} {share:.1%} of the points on the right side"
        if share < ENOUGH:
            raise NotYetError(f"{found}; {ENOUGH:.0%} are wanted.")
        if neurons > FEW:
            raise NotYetError(f"{found}. That is enough: can fewer do it?")
        return f"{found}."

    return Exercise(
        judge,
        (
            "Look at the picture of each neuron. Do two of them show the same?",
            "A random start can end in a bad place. Another seed starts elsewhere.",
            "The boundary needs two bends, and each neuron can bend it once.",
        ),
    )
