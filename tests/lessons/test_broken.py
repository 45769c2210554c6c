"""Each broken network has the cause that the exercise asks for, and the exercise accepts the six causes and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sklearn.datasets import load_digits

import pnne_nb as pn
from pnne_nb.lessons.broken import _ANSWERS, CAUSES, cases, exercise

FINDS = {
    "A": "large-input",
    "B": "softmax-before-loss",
    "C": "update-ratio-high",
    "D": "sorted-batches",
    "E": "zero-weights",
    "F": "vanishing-gradients",
}


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    images, classes = load_digits(return_X_y=True)
    return torch.tensor(images / 16, dtype=torch.float32), torch.tensor(classes)


@pytest.mark.parametrize(("name", "kind"), FINDS.items())
def test_the_first_finding_about_a_network_is_its_cause(name: str, kind: str) -> None:
    engine = cases(*digits())[name].engine
    engine.start().wait()
    assert pn.diagnose(engine)[0].kind == kind
    assert engine.history["train_accuracy"][-1] < 0.7, "a network that does not learn"


@pytest.mark.parametrize(
    "answer",
    [
        _ANSWERS,
        {name.lower(): f" {cause.upper()}" for name, cause in reversed(_ANSWERS.items())},
        {name: CAUSES.index(cause) + 1 for name, cause in _ANSWERS.items()},
    ],
    ids=["words", "any case and order", "numbers"],
)
def test_the_six_causes_are_right(answer: Any) -> None:
    assert repr(exercise().check(answer)) == "Right. All six. Repair them, and compare the curves."


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "Give a cause for each network"),
        ("A is too fast", "Give a cause for each network"),
        ({"A": 6}, "What is the cause of B, C, D, E, F?"),
        ({**_ANSWERS, "G": 1}, "There is no network G: they are A, B, C, D, E, F."),
        ({**_ANSWERS, "B": "softmax before loss"}, "is no cause of the list. Did you mean 'softmax before the loss'?"),
        ({**_ANSWERS, "B": 0}, "0 is no cause of the list. Give its words, or its number from 1."),
        ({**_ANSWERS, "A": 1, "C": 6}, "4 of 6 are right. Look again at A, C."),
        (dict.fromkeys("ABCDEF", 8), "0 of 6 are right. Look again at A, B, C, D, E, F."),
    ],
)
def test_what_is_missing_is_said(answer: Any, words: str) -> None:
    verdict = exercise().check(answer)
    assert not verdict.right
    assert words in verdict.words
