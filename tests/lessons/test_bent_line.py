"""The exercise about the bent line accepts nets that separate the moons with few neurons, and tells others what is missing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.lessons.bent_line import exercise

# A zigzag stands for the moons: the side is 1 where y is above |x|, which two neurons can say, and no line can.
POINTS = torch.cartesian_prod(torch.linspace(-1, 1, 21), torch.linspace(-1, 1, 20))
SIDES = (POINTS[:, 1] > POINTS[:, 0].abs() - 0.5).long()


def net(neurons: int, bent: bool = True) -> nn.Sequential:
    """A net of so many neurons that says y > |x| - 0.5, or only y > -0.25; the rest of its neurons does nothing."""
    first, last = nn.Linear(2, neurons), nn.Linear(neurons, 2)
    with torch.no_grad():
        for parameter in (*first.parameters(), *last.parameters()):
            parameter.zero_()
        rows = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]] if bent else [[0.0, 1.0]])
        first.weight[: len(rows)] = rows
        first.bias[: len(rows)] = torch.tensor([0.0, 0.0, 2.0] if bent else [2.0])
        last.weight[1, : len(rows)] = torch.tensor([-1.0, -1.0, 1.0] if bent else [1.0])
        last.bias[1] = -1.5 if bent else -1.75
    return nn.Sequential(first, nn.ReLU(), last)


def engine(model: nn.Module) -> pn.TrainingEngine:
    inputs = next(layer.in_features for layer in model.modules() if isinstance(layer, nn.Linear))
    return pn.TrainingEngine(model, (torch.zeros(4, inputs), torch.arange(4) % 2), device="cpu")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: net(3), "3 neurons have 100.0% of the points on the right side."),
        (lambda: net(4), "4 neurons have 100.0% of the points on the right side."),
        (lambda: pn.compile(pn.from_module(net(3), args=(POINTS,))), "3 neurons have 100.0%"),
    ],
)
def test_few_neurons_are_right(answer: Callable[[], nn.Module], words: str) -> None:
    verdict = exercise(POINTS, SIDES).check(engine(answer()))
    assert verdict.right
    assert verdict.words.startswith(words)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: nn.Linear(2, 2), "Give the training: exercise.check(engine)."),
        (lambda: "three", "Give the training: exercise.check(engine)."),
        (lambda: engine(net(1, bent=False)), "1 neuron has "),
        (lambda: engine(net(3, bent=False)), "of the points on the right side; 97% are wanted."),
        (
            lambda: engine(net(8)),
            "8 neurons have 100.0% of the points on the right side. That is enough: can fewer do it?",
        ),
        (lambda: engine(nn.Linear(3, 2)), "The net must take two numbers and give two scores."),
        (lambda: engine(nn.Linear(2, 3)), "The net must take two numbers and give two scores."),
    ],
)
def test_what_is_missing_is_said(answer: Callable[[], object], words: str) -> None:
    verdict = exercise(POINTS, SIDES).check(answer())
    assert not verdict.right
    assert words in verdict.words
