"""`Exercise`: checks an answer, says how far off it is, and gives one more hint at each further try."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from pnne_nb.runtime.engine import TrainingEngine


@dataclass(frozen=True)
class Verdict:
    """What is said about an answer; a notebook shows it.

    Attributes:
        right: Whether the answer is accepted.
        words: Why, or what is missing, with hints.
    """

    right: bool
    words: str

    def __repr__(self) -> str:
        return f"{'Right.' if self.right else 'Not yet.'} {self.words}"


class NotYetError(Exception):
    """An answer is not accepted; the message says what is missing."""


@final
class Exercise:
    """A question of a lesson.

    Args:
        judge: Returns why an answer is right, whatever it is, or raises `NotYetError`, and nothing else.
        hints: From the vaguest to the plainest; none of them is the answer.
    """

    def __init__(self, judge: Callable[[object], str], hints: Sequence[str]) -> None:
        self._judge = judge
        self._hints = hints
        self._tries = 0

    def check(self, answer: object = None) -> Verdict:
        """Return what there is to say about an answer; after the second wrong one, with a hint, and then with one more each."""
        try:
            return Verdict(True, self._judge(answer))
        except NotYetError as missing:
            if answer is None:
                return Verdict(False, str(missing))
            self._tries += 1
            hints = self._hints[: self._tries - 1]
            return Verdict(False, " ".join([str(missing), *(f"Hint: {hint}" for hint in hints)]))


def training_of(answer: object) -> TrainingEngine:
    """Return the training that is the answer.

    Raises:
        NotYetError: It is something else.
    """
    if not isinstance(answer, TrainingEngine):
        raise NotYetError("Give the training: exercise.check(engine).")
    return answer


def share_right(engine: TrainingEngine, inputs: Tensor, classes: Tensor, needs: str) -> float:
    """Return the share of examples whose class gets the highest score, 0 to 1.

    Args:
        engine: The training whose model is asked, in evaluation mode.
        inputs: Of the examples, `[N, ...]`.
        classes: Of the examples, `[N]`.
        needs: What the model must take and give, in words: ``"64 numbers and give ten scores"``.

    Raises:
        NotYetError: The model takes or gives something else.
    """
    try:
        with torch.no_grad():
            scores = copy.deepcopy(engine.model).cpu().eval()(inputs)
        fits = scores.shape == (len(inputs), int(classes.max()) + 1)
    except Exception:  # noqa: BLE001  # the learner's model may raise anything
        fits = False
    if not fits:
        raise NotYetError(f"The net must take {needs}.")
    return float((scores.argmax(1) == classes).float().mean())
