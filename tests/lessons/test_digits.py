"""The exercises about digits accept what reads them with few parameters or a small gap, and tell others what is missing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.lessons.digits import FEW, few_parameters, small_gap
from pnne_nb.lessons.exercise import Exercise

# Ten pixels stand for the digits: the brightest of the first ten tells which digit it is.
DIGITS = torch.arange(100) % 10
IMAGES = torch.eye(64)[DIGITS]


def reader(right: int = 10, extra: int = 0) -> nn.Module:
    """A linear net that knows the first `right` digits, with so many parameters more that do nothing."""
    net = nn.Linear(64, 10)
    with torch.no_grad():
        net.weight.zero_()
        net.bias.zero_()
        net.weight[:right, :right] = 20 * torch.eye(10)[:right, :right]
    if extra:
        net.register_parameter("extra", nn.Parameter(torch.zeros(extra)))
    return net


def engine(model: nn.Module, images: Any = IMAGES, digits: Any = DIGITS, rate: float = 0.0) -> pn.TrainingEngine:
    """A training that has ended and has left the model nearly as it was."""
    optimizer = ("SGD", {"lr": rate})
    made = pn.TrainingEngine(model, (images, digits), epochs=1, optimizer=optimizer, device="cpu", seed=0)
    made.start().wait()
    return made


@pytest.fixture
def few() -> Exercise:
    return few_parameters(IMAGES, DIGITS)


@pytest.fixture
def gap() -> Exercise:
    return small_gap(IMAGES, DIGITS)


@pytest.mark.parametrize(
    "model",
    [reader(), reader(9, FEW - 650), pn.compile(pn.from_module(reader(), args=(IMAGES,)))],
    ids=["ten digits", "nine of ten", "a graph"],
)
def test_few_parameters_are_right(few: Exercise, model: nn.Module) -> None:
    verdict = few.check(engine(model))
    assert verdict.right, verdict
    assert "parameters read " in verdict.words


WRONG: list[tuple[Any, str]] = [
    (lambda: None, "Give the training: exercise.check(engine)."),
    (lambda: 610, "Give the training: exercise.check(engine)."),
    (reader, "Give the training: exercise.check(engine)."),
    (
        lambda: engine(nn.Linear(3, 10), torch.zeros(20, 3), torch.arange(20) % 10),
        "take 64 numbers and give ten scores.",
    ),
    (lambda: engine(nn.Linear(64, 12)), "The net must take 64 numbers and give ten scores."),
]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        *WRONG,
        (lambda: engine(reader(5)), "650 parameters read 50% of the unseen digits; 85% are wanted."),
        (lambda: engine(reader(10, FEW)), "1,350 parameters read 100% of the unseen digits. That is enough: 700"),
        (lambda: pn.TrainingEngine(reader(), (IMAGES, DIGITS)), "This network was not trained yet"),
    ],
)
def test_what_is_missing_to_few_parameters_is_said(few: Exercise, answer: Any, words: str) -> None:
    verdict = few.check(answer())
    assert not verdict.right
    assert words in verdict.words


@pytest.mark.parametrize(
    "made",
    [
        lambda: engine(reader()),
        lambda: engine(nn.Sequential(reader(), nn.Dropout(0.0))),
        lambda: engine(reader(), IMAGES, torch.where(torch.arange(100) < 10, (DIGITS + 1) % 10, DIGITS)),
    ],
    ids=["no gap", "dropout", "harder in training than after it"],
)
def test_a_small_gap_is_right(gap: Exercise, made: Any) -> None:
    verdict = gap.check(made())
    assert verdict.right, verdict
    assert "a gap of " in verdict.words


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        *WRONG,
        (lambda: engine(reader(5)), "in training and 50% of the unseen digits, a gap of 0.00. It is to read 75%"),
        (lambda: engine(reader(9), IMAGES[DIGITS < 9], DIGITS[DIGITS < 9]), "a gap of 0.10; less than 0.05 is wanted."),
        (lambda: pn.TrainingEngine(reader(), (IMAGES, DIGITS)), "This network was not trained for an epoch yet"),
    ],
)
def test_what_is_missing_to_a_small_gap_is_said(gap: Exercise, answer: Any, words: str) -> None:
    verdict = gap.check(answer())
    assert not verdict.right
    assert words in verdict.words
