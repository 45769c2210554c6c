"""The decision surface shows what a training's model answers, follows it, and refuses what has no plane."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import bqplot
import numpy as np
import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.widgets.dashboard.decision_surface import HIGH, WIDE, DecisionSurface, _painted, palette
from pnne_nb.widgets.plots.svg_chart import PALETTE
from tests.widgets.shown import Shown

PATIENCE = 60.0
X = torch.cartesian_prod(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8))
Y = (X[:, 0] > 0).long()


def by_side(outputs: int = 2, inputs: int = 2) -> nn.Linear:
    """A model whose last score is twenty times the first input."""
    model = nn.Linear(inputs, outputs)
    with torch.no_grad():
        model.weight.zero_()
        model.bias.zero_()
        model.weight[-1, 0] = 20.0
    return model


def training(model: nn.Module, x: Any = X, y: Any = Y, **options: Any) -> pn.TrainingEngine:
    return pn.TrainingEngine(model, (x, y), batch_size=16, device="cpu", **options)


@pytest.fixture
def surface() -> Iterator[DecisionSurface]:
    made = DecisionSurface(training(by_side()), (X, Y))
    yield made
    made.close()


def leading(surface: DecisionSurface) -> list[list[int]]:
    """Which class leads at the left and at the right end of the middle row."""
    assert surface._engine is not None
    pixels, _ = surface._answers(surface._engine)
    assert pixels.shape == (HIGH, WIDE, 4)
    return [pixels[HIGH // 2, column, :3].tolist() for column in (0, -1)]


BLUE, ORANGE = palette(2).tolist()


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (by_side, Y),
        (lambda: by_side(1), Y[:, None].float()),
        (lambda: nn.Sequential(by_side(1), nn.Sigmoid()), Y[:, None].float()),
        (lambda: by_side(1), X[:, :1] * 3),
    ],
    ids=["scores", "a logit", "a probability", "a quantity"],
)
def test_a_place_has_the_colour_of_the_answer_there(model: Any, y: torch.Tensor) -> None:
    loss = "BCELoss" if isinstance(model(), nn.Sequential) else "auto"
    surface = DecisionSurface(training(model(), y=y, loss=loss), (X, y))
    assert leading(surface) == [BLUE, ORANGE]
    dots = surface.marks[1]
    assert dots.colors[0] == PALETTE[0]
    assert dots.colors[-1] == PALETTE[1]
    surface.close()


def test_the_surer_the_answer_the_stronger_the_colour() -> None:
    shares = np.tile(np.array([[0.5, 0.5], [0.9, 0.1]]), (HIGH * WIDE // 2, 1))
    alpha = _painted(shares, palette(2))[0, :2, 3]
    assert alpha[0] < alpha[1]


def test_inputs_that_span_no_axis_have_their_mean() -> None:
    x = torch.rand(50, 3) + torch.tensor([0.0, 5.0, 0.0])
    surface = DecisionSurface(training(nn.Linear(3, 2), x, x[:, 0].round().long()), (x, x[:, 0].round()), inputs=(2, 0))
    grid = surface._plane.grid()
    assert grid.shape == (HIGH * WIDE, 3)
    torch.testing.assert_close(grid[:, 1], x[:, 1].mean().expand(len(grid)))
    assert grid[0, 0] == grid[:, 0].max(), "the first row is the top"
    assert [axis.label for axis in surface.axes] == ["input 2", "input 0"]
    surface.close()


def test_the_plane_of_principal_components_holds_the_examples() -> None:
    plane = torch.randn(30, 2) @ torch.randn(2, 16) + 1
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 12))
    surface = DecisionSurface(training(net, plane.reshape(30, 1, 4, 4), torch.arange(30) % 12),
                              (plane.reshape(30, 1, 4, 4), torch.arange(30) % 12))  # fmt: skip
    found = surface._plane
    np.testing.assert_allclose(found.origin + found.points @ found.axes, plane.numpy(), atol=1e-5)
    assert found.grid().shape == (HIGH * WIDE, 1, 4, 4)
    assert len(np.unique(palette(12), axis=0)) == 12
    surface.close()


def test_names_of_classes_are_those_of_the_training() -> None:
    names = np.array(["right" if side else "left" for side in Y.tolist()])
    surface = DecisionSurface(training(by_side(), y=names), (X, names))
    assert "class left" in surface.to_svg("light")
    assert leading(surface) == [BLUE, ORANGE]
    surface.close()


def test_it_moves_while_the_model_trains_and_ends_with_the_last_step() -> None:
    engine = training(nn.Linear(2, 2), epochs=2)
    surface = DecisionSurface(engine, (X, Y))
    before = surface.marks[0].image.value
    assert surface.title == "Answers after 0 steps"
    engine.start().wait()
    assert surface._pump.join(PATIENCE)
    assert surface.title == "Answers after 8 steps"
    assert surface.marks[0].image.value != before
    surface.close()


def test_watching_changes_no_number_of_the_training() -> None:
    losses = []
    for watched in (False, True):
        net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
        engine = training(net, epochs=3, seed=0)
        net.load_state_dict({name: torch.ones_like(value) for name, value in net.state_dict().items()})
        surface = DecisionSurface(engine, (X, Y)) if watched else None
        engine.start().wait()
        losses.append(engine.history["loss"].tolist())
        if surface is not None:
            surface.close()
    assert losses[0] == losses[1]


def test_its_picture_is_kept_and_drawn_again_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = Shown(monkeypatch)
    engine = training(nn.Linear(2, 2), epochs=1)
    surface = DecisionSurface(engine, (X, Y))
    surface._ipython_display_()
    engine.start().wait()
    assert cells.bundles[-1]["text/plain"] == "Picture of the decision surface"
    assert "Answers after 4 steps" in cells.updates[-1]["text/html"]
    surface.close()


def test_its_picture_has_the_surface_and_the_examples(surface: DecisionSurface) -> None:
    drawn = surface.to_svg("dark")
    assert drawn.count("<circle") == len(X)
    assert 'href="data:image/png;base64,' in drawn
    assert "class 0" in drawn
    assert repr(surface) == "DecisionSurface()"


def test_a_model_that_no_longer_fits_is_told_in_the_title(surface: DecisionSurface) -> None:
    engine = surface._engine
    assert engine is not None
    with engine.paused() as model:
        model.weight = nn.Parameter(torch.zeros(2, 3))
    surface.draw(1, watched=False)
    assert surface.title.startswith("The network no longer takes these examples: ")


def test_a_closed_surface_leaves_nothing(surface: DecisionSurface) -> None:
    surface.close()
    surface.close()
    surface.draw(1, watched=False)
    with pytest.raises(RuntimeError, match=r"was closed\. DecisionSurface\(engine, data\) makes another"):
        surface.still()


def test_it_does_not_keep_a_training_from_being_collected() -> None:
    engine = training(by_side())
    surface = DecisionSurface(engine, (X, Y))
    surface.close()
    gone = weakref.ref(engine)
    del engine, surface
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (X, {}, r"data must be the examples \(X, y\), not"),
        ((X[:, :1], Y), {}, r"X must hold two numbers or more of each example, \[N, \.\.\.\], not float32 \[64, 1\]"),
        ((X[0], Y), {}, "X must hold two numbers or more of each example"),
        ((X, Y[:5]), {}, "y must hold one target of each example: X has 64, and y 5"),
        ((X / 0, Y), {}, "A NaN or an infinity has no place in the plane"),
        ((X, Y + 1), {}, "y has classes from 1 to 2, and the model gives 2 scores, of the classes 0 to 1"),
        ((X, Y), {"inputs": (0, 2)}, r'inputs must be two different numbers from 0 to 1, or "pca", not \(0, 2\)'),
        ((X, Y), {"inputs": (1, 1)}, "inputs must be two different numbers"),
        ((X, Y), {"inputs": "tsne"}, "inputs must be two different numbers"),
        ((X, Y), {"inputs": 3}, "inputs must be two different numbers"),
    ],
)
def test_what_has_no_plane_is_refused(data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(pn.ArgumentError, match=message):
        DecisionSurface(training(by_side()), data, **options)


def test_no_training_and_no_answers_are_refused() -> None:
    with pytest.raises(pn.ArgumentError, match=r"engine must be a TrainingEngine, not .* Write pn\.DecisionSurface"):
        DecisionSurface(by_side(), (X, Y))  # type: ignore[arg-type]  # the wrong thing on purpose
    maps = nn.Sequential(nn.Unflatten(1, (1, 1, 2)), nn.Conv2d(1, 2, 1))
    engine = training(maps, y=torch.zeros(64, 1, 2, dtype=torch.long))
    with pytest.raises(
        pn.ArgumentError, match=r"one answer for each example, a number or scores; the model gives \(3456"
    ):
        DecisionSurface(engine, (X, Y))


def test_it_is_a_figure_of_bqplot(surface: DecisionSurface) -> None:
    assert isinstance(surface, bqplot.Figure)
    x, y = (axis.scale for axis in surface.axes)
    assert [[x.min, x.max], [y.min, y.max]] == [list(surface.marks[0].x), list(surface.marks[0].y)]


def test_a_model_of_tokens_has_no_surface() -> None:
    tokens, classes = torch.randint(0, 9, (32, 4)), torch.arange(32) % 3
    net = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(16, 3))
    engine = pn.TrainingEngine(net, (tokens, classes), epochs=1, device="cpu")
    with pytest.raises(pn.ArgumentError, match="real numbers: tokens and other whole numbers span no surface"):
        pn.DecisionSurface(engine, (tokens, classes))
