"""The figure of one captured tensor shows its histogram."""

from __future__ import annotations

from itertools import count

import bqplot
import ipywidgets
import numpy as np
import pytest
import torch
from torch import nn

from pnne_nb.inspector.capture.capture import Capture, LayerView
from pnne_nb.inspector.inspector import Inspector
from pnne_nb.inspector.statistics.histogram import histograms
from pnne_nb.inspector.statistics.measure import statistics
from pnne_nb.widgets.host import displays
from pnne_nb.widgets.plots.inspector_plot import draw_layer

pytestmark = pytest.mark.usefixtures("own_widgets")


def view(tensor: torch.Tensor, *, log: bool = False) -> LayerView:
    [histogram], [found] = histograms([tensor], 4, log=log), statistics([tensor])
    capture = Capture("conv1", "parameter_gradients", "weight", tensor, sampled=False, statistics=found)
    return LayerView(capture, "Conv2d", histogram)


def test_the_steps_are_the_histogram() -> None:
    figure = draw_layer(view(torch.tensor([0.0, 0.1, 0.9, 4.0])))
    [line] = figure.marks
    assert np.allclose(line.x, [0, 1, 2, 3, 4])
    assert line.y.tolist() == [3, 0, 0, 1, 1]
    assert figure.title == "conv1 (Conv2d): parameter gradients weight, mean 1.25, std 1.88"
    title = "<title>conv1 (Conv2d): parameter gradients weight</title>"
    assert title in figure.chart.to_svg(), "the words below it have the numbers"
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


def test_a_cell_that_is_run_again_leaves_one_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    executions = count()
    monkeypatch.setattr(displays, "_running_cell", lambda: ("cell of the figure", next(executions), ""))
    open_before = set(ipywidgets.widgets.widget._instances)
    counts = []
    for _ in range(3):
        draw_layer(view(torch.tensor([0.0, 1.0])))._ipython_display_()
        counts.append(len(set(ipywidgets.widgets.widget._instances) - open_before))
    assert counts[0] > 1
    assert counts == counts[:1] * 3
