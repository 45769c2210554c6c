"""The lesson about networks that do not learn: six of them, and the exercise to name their causes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from pnne_nb.errors import near, shown
from pnne_nb.graph.sequential import sequential
from pnne_nb.lessons.exercise import Exercise, NotYetError
from pnne_nb.runtime.engine import TrainingEngine

CAUSES: Final = (
    "the learning rate is too high",
    "the learning rate is too low",
    "softmax before the loss",
    "all weights are zero",
    "gradients vanish in a deep network",
    "the inputs are not scaled",
    "the examples come sorted by class",
    "dropout is too strong",
)
"""What the learner chooses from; the two that are no cause of these are the learning rate that is too low, and dropout."""
_ANSWERS: Final = dict(zip("ABCDEF", (CAUSES[i] for i in (5, 2, 0, 6, 3, 4)), strict=True))
_PLAIN: Final[tuple[Any, ...]] = (("Linear", 64, 32), "ReLU", ("Linear", 32, 10))
_DEEP: Final[tuple[Any, ...]] = (*((("Linear", 64, 64), "Sigmoid") * 10), ("Linear", 64, 10))


class Case(NamedTuple):
    """A network that does not learn.

    Attributes:
        engine: Its training, not yet started.
        images: What it trains with, `[N, 64]`.
        digits: What they are, `[N]`.
    """

    engine: TrainingEngine
    images: Tensor
    digits: Tensor


def cases(images: Tensor, digits: Tensor) -> dict[str, Case]:
    """Return six trainings by letter; each of them has one thing wrong.

    Args:
        images: Of digits, `[N, 64]`, from 0 to 1.
        digits: What they are, `[N]`.
    """
    order = torch.argsort(digits, stable=True)
    return {
        "A": _case(_PLAIN, images * 5000 + 1000, digits),
        "B": _case((*_PLAIN, ("Softmax", {"dim": 1})), images, digits),
        "C": _case(_PLAIN, images, digits, lr=50.0),
        "D": _case(_PLAIN, images[order], digits[order], shuffle=False),
        "E": _case(_PLAIN, images, digits, zero=True),
        "F": _case(_DEEP, images, digits),
    }


def _case(
    layers: tuple[Any, ...],
    images: Tensor,
    digits: Tensor,
    *,
    lr: float = 0.05,
    shuffle: bool = True,
    zero: bool = False,
) -> Case:
    graph = sequential(*layers, input=("N", 64), name="reader")
    options = {"epochs": 4, "batch_size": 32, "optimizer": ("SGD", {"lr": lr}), "seed": 0, "device": "cpu"}
    engine = TrainingEngine(graph, (images, digits), shuffle=shuffle, **options)  # type: ignore[arg-type]  # of several types
    if zero:
        with engine.paused() as model, torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
    return Case(engine, images, digits)


def exercise() -> Exercise:
    """Return the exercise: name the cause of each, as ``{"A": "the learning rate is too high", …}`` or by its number."""

    def judge(answer: object) -> str:
        if not isinstance(answer, Mapping):
            raise NotYetError('Give a cause for each network: exercise.check({"A": 1, "B": 2, ...}).')
        given = {
            (name.upper() if isinstance(name, str) else shown(name)): _cause(cause) for name, cause in answer.items()
        }
        if strange := sorted(set(given) - set(_ANSWERS)):
            raise NotYetError(f"There is no network {', '.join(strange)}: they are {', '.join(_ANSWERS)}.")
        if open_ones := [name for name in _ANSWERS if name not in given]:
            raise NotYetError(f"What is the cause of {', '.join(open_ones)}?")
        if wrong := [name for name, cause in _ANSWERS.items() if given[name] != cause]:
            raise NotYetError(f"{6 - len(wrong)} of 6 are right. Look again at {', '.join(wrong)}.")
        return "All six. Repair them, and compare the curves."

    return Exercise(
        judge,
        (
            "A loss that begins far above 2.3, the loss of guessing, does not come from the weights.",
            "Where does the gradient become 0: nowhere, in all layers, or more and more towards the first?",
            "Look at what goes in, what comes out, and the order of the targets, before you look at the layers.",
        ),
    )


def _cause(given: object) -> str:
    """Return the cause that is meant by its words or its number, from 1.

    Raises:
        NotYetError: There is none.
    """
    if isinstance(given, int) and 1 <= given <= len(CAUSES):
        return CAUSES[given - 1]
    said = given.strip().lower() if isinstance(given, str) else ""
    if said not in CAUSES:
        advice = f"{near(said, CAUSES)} Give its words, or its number from 1."
        raise NotYetError(f"{shown(given)} is no cause of the list.{advice}")
    return said
