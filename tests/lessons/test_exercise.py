"""Each exercise is tried with three right answers and six wrong ones, answers nonsense with a hint, and never shows an answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.lessons import bent_line, broken, digits, transfer, words
from pnne_nb.lessons.exercise import Exercise
from tests.lessons import test_bent_line, test_broken, test_digits, test_transfer, test_words

PLANE = torch.randn(20, 2), torch.arange(20) % 2
READ = torch.rand(20, 64), torch.arange(20) % 10
SEEN = torch.rand(20, 1, 8, 8), torch.arange(20) % 5
ASKED: dict[str, Callable[[], Exercise]] = {
    "bent_line": lambda: bent_line.exercise(*PLANE),
    "few_parameters": lambda: digits.few_parameters(*READ),
    "small_gap": lambda: digits.small_gap(*READ),
    "transfer": lambda: transfer.exercise(nn.Conv2d(1, 2, 3), *SEEN),
    "words": words.exercise,
    "broken": broken.exercise,
}
TRIED = [
    (test_bent_line, "test_few_neurons_are_right", "test_what_is_missing_is_said"),
    (test_digits, "test_few_parameters_are_right", "test_what_is_missing_to_few_parameters_is_said"),
    (test_digits, "test_a_small_gap_is_right", "test_what_is_missing_to_a_small_gap_is_said"),
    (test_transfer, "test_the_same_filters_that_read_are_right", "test_what_is_missing_is_said"),
    (test_words, "test_each_form_of_the_mask_is_right", "test_what_is_wrong_with_a_mask_is_said"),
    (test_broken, "test_the_six_causes_are_right", "test_what_is_missing_is_said"),
]


class Silent:
    """Something that cannot even be shown."""

    def __repr__(self) -> str:
        raise ValueError("no words")


class Odd(nn.Linear):
    """A model that fails in a way of its own, or gives two results."""

    def forward(self, input: torch.Tensor) -> Any:
        if len(input) == 20:
            raise KeyError("odd")
        return input, input


NONSENSE: list[Callable[[], object]] = [
    lambda: None, lambda: "hello", lambda: 10**5000, lambda: float("nan"), lambda: [1, 2], lambda: torch.ones(3, 3), Silent,
    lambda: nn.Linear, lambda: pn.TrainingEngine, lambda: nn.Linear(2, 2), dict, lambda: {Silent(): 1},
    lambda: {10**5000: 1}, lambda: dict.fromkeys("ABCDEF", 10**5000), lambda: dict.fromkeys("ABCDEF", Silent()),
    lambda: dict.fromkeys("ABCDEF", "y" * 10**5), lambda: dict.fromkeys("ABCDEF"), lambda: lambda: 1, lambda: lambda n: n / 0,
    lambda: lambda n: torch.ones(n + 1000), lambda: lambda n: torch.full((n, n), torch.nan),
    lambda: pn.TrainingEngine(Odd(2, 2), PLANE, device="cpu"),
    lambda: pn.TrainingEngine(nn.Linear(2, 2), PLANE, device="cpu"),
    lambda: pn.sequential(("Linear", 64, 10), input=("N", 64)),
]  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_nonsense_is_answered_with_a_hint_that_fits_in_a_line(name: str) -> None:
    for made in NONSENSE:
        asked, answer = ASKED[name](), made()
        first, second = asked.check(answer), asked.check(answer)
        assert not first.right, answer
        assert re.fullmatch(r"Not yet\. .{10,500}", repr(first))
        assert second.words.count("Hint: ") == (answer is not None)


@pytest.mark.parametrize("name", ASKED)
def test_hints_come_one_by_one_and_the_empty_answer_costs_none(name: str) -> None:
    asked = ASKED[name]()
    assert [asked.check("?").words.count("Hint: ") for _ in range(5)] == [0, 1, 2, 3, 3]
    assert "Hint" not in asked.check(None).words
    assert not any(cause in asked.check("?").words for cause in broken.CAUSES)


@pytest.mark.parametrize(("tests", "right", "wrong"), TRIED, ids=ASKED)
def test_an_exercise_is_tried_with_three_right_answers_and_six_wrong_ones(
    tests: ModuleType, right: str, wrong: str
) -> None:
    accepted, refused = (getattr(tests, name).pytestmark[0].args[1] for name in (right, wrong))
    assert len(accepted) >= 3
    assert len(refused) >= 6
    assert len({said for _, said in refused if not said.startswith("Give ")}) >= 3
