"""The exercise about the bent line accepts nets that separate the moons with few neurons, and tells others what is missing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.lessons.bent_line import exercise
from pnne_nb.lessons.exercise import Exercise

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


@pytest.fixture
def asked() -> Exercise:
    return exercise(POINTS, SIDES)


@pytest.mark.parametrize("neurons", [3, 4])
def test_few_neurons_are_right(asked: Exercise, neurons: int) -> None:
    verdict = asked.check(engine(net(neurons)))
    assert verdict.right
    assert repr(verdict) == f"Right. {neurons} neurons have 100.0% of the points on the right side."


def test_a_graph_is_right_as_well(asked: Exercise) -> None:
    assert asked.check(engine(pn.compile(pn.from_module(net(3), args=(POINTS,))))).right


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "Give the training: exercise.check(engine)."),
        ("three", "Give the training: exercise.check(engine)."),
        (nn.Linear(2, 2), "Give the training: exercise.check(engine)."),
    ],
)
def test_nonsense_is_answered(asked: Exercise, answer: object, words: str) -> None:
    assert repr(asked.check(answer)) == f"Not yet. {words}"


def test_what_is_missing_is_said(asked: Exercise) -> None:
    assert asked.check(engine(net(1, bent=False))).words.startswith("1 neuron has ")
    assert "That is enough: can fewer do it?" in asked.check(engine(net(8))).words
    assert "must take two numbers" in asked.check(engine(nn.Linear(3, 2))).words


def test_each_further_try_has_one_more_hint(asked: Exercise) -> None:
    line = engine(net(1, bent=False))
    assert [asked.check(line).words.count("Hint: ") for _ in range(5)] == [0, 1, 2, 3, 3]
    assert "Hint" not in asked.check(None).words
