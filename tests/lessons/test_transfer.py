"""The exercise about transfer accepts a network with the first one's filters that reads other digits, and nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.lessons.transfer import exercise

# The place of one bright pixel in the first row tells which digit it is.
DIGITS = torch.arange(50) % 5
IMAGES = nn.functional.one_hot(DIGITS + 1, 64).float().reshape(-1, 1, 8, 8)


def net(right: int = 5, filters: float = 1.0) -> nn.Sequential:
    """A net whose filter passes the first row, and whose last layer knows so many digits."""
    filter, last = nn.Conv2d(1, 1, 3, padding=1), nn.Linear(64, 5)
    made = nn.Sequential(filter, nn.Flatten(), last)
    with torch.no_grad():
        for values in made.parameters():
            values.zero_()
        filter.weight[0, 0, 1, 1] = filters
        last.weight[range(right), range(1, right + 1)] = 20.0
    return made


def engine(model: nn.Module, images: Any = IMAGES, *, trained: bool = True) -> pn.TrainingEngine:
    """A training that has left the model as it was."""
    made = pn.TrainingEngine(model, (images, DIGITS), epochs=1, optimizer=("SGD", {"lr": 0.0}), device="cpu")
    if trained:
        made.start().wait()
    return made


def graph_of(model: nn.Module) -> nn.Module:
    return pn.compile(pn.from_module(model, args=(IMAGES,)))


@pytest.mark.parametrize(
    "model",
    [net(), nn.Sequential(*net(), nn.Dropout(0.5)), graph_of(net())],
    ids=["the same layers", "one more layer", "a graph"],
)
def test_the_same_filters_that_read_are_right(model: nn.Module) -> None:
    first = copy.deepcopy(model)
    verdict = exercise(first, IMAGES, DIGITS).check(engine(model))
    assert repr(verdict).startswith("Right. With the filters of the first network, it reads 100%"), verdict


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: None, "Give the training: exercise.check(engine)."),
        (net, "Give the training: exercise.check(engine)."),
        (lambda: engine(nn.Linear(8, 7), torch.zeros(50, 8)), "must take pictures of 8 x 8 and give five scores."),
        (lambda: engine(net(filters=2.0)), "0.weight is not that of the first network"),
        (lambda: engine(nn.Sequential(nn.Flatten(), nn.Linear(64, 5))), "The net has no 0.weight of the size"),
        (lambda: engine(net(), trained=False), "This network was not trained yet"),
        (lambda: engine(net(3)), "It reads 60% of the unseen digits; 85% are wanted."),
    ],
)
def test_what_is_missing_is_said(answer: Any, words: str) -> None:
    verdict = exercise(net(), IMAGES, DIGITS).check(answer())
    assert not verdict.right
    assert words in verdict.words
