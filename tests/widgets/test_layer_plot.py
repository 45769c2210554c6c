"""The figure of one captured tensor shows its histogram."""

from __future__ import annotations

import bqplot
import numpy as np
import torch
from torch import nn

from pnne_nb.inspector.drawing import LayerView
from pnne_nb.inspector.histogram import histograms
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.inspector.measure import statistics
from pnne_nb.widgets.layer_plot import draw_layer


def view(tensor: torch.Tensor, *, log: bool = False) -> LayerView:
    [histogram], [found] = histograms([tensor], 4, log=log), statistics([tensor])
    return LayerView("conv1", "Conv2d", "parameter_gradients", "weight", histogram, found)


def test_the_steps_are_the_histogram() -> None:
    figure = draw_layer(view(torch.tensor([0.0, 0.1, 0.9, 4.0])))
    [line] = figure.marks
    assert np.allclose(line.x, [0, 1, 2, 3, 4])
    assert line.y.tolist() == [3, 0, 0, 1, 1]
    assert figure.title == "conv1 (Conv2d): parameter gradients weight, mean 1.25, std 1.88"
    assert [axis.label for axis in figure.axes] == ["value", "elements"]


def test_log_spaced_bins_have_a_log_axis() -> None:
    figure = draw_layer(view(torch.tensor([0.0, 1e-4, -1.0, float("nan")]), log=True))
    assert isinstance(figure.axes[0].scale, bqplot.LogScale)
    assert figure.title.endswith(", 1 NaN, 0 infinite")


def test_nothing_finite_still_draws() -> None:
    assert draw_layer(view(torch.tensor([float("nan")]))).marks[0].y.tolist() == [0] * 5


def test_the_inspector_draws_with_it() -> None:
    inspector = Inspector(nn.Linear(2, 2))
    inspector.run_inspection(torch.zeros(3, 2))
    figure = inspector.plot("")
    assert isinstance(figure, bqplot.Figure)
    assert figure.title.startswith("Linear: activations")
