"""Line charts as SVG, and the picture of a history."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import pnne_nb as pn
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.telemetry.frames import EpochFrame, StepFrame
from pnne_nb.widgets.plots.history_chart import history_chart
from pnne_nb.widgets.plots.svg_chart import Chart, ChartLine, Panel, linear_ticks, log_ticks

SVG = "{http://www.w3.org/2000/svg}"


def parsed(chart: Chart) -> ET.Element:
    return ET.fromstring(chart.to_svg("light"))


def texts(chart: Chart) -> list[str]:
    return [element.text or "" for element in parsed(chart).iter(f"{SVG}text")]


def trained(losses: list[float]) -> History:
    history = History()
    for step, loss in enumerate(losses, 1):
        history.record(StepFrame(step, 1, loss, 0.1, 4, 0.5))
    metrics = {"train_loss": 1.0, "val_loss": 2.0, "train_accuracy": 0.5, "val_accuracy": 0.25}
    history.record(EpochFrame(1, len(losses), metrics))
    return history


def test_training_and_validation_of_one_metric_share_a_panel() -> None:
    chart = history_chart(trained([3.0, 2.0, 1.0]))
    assert repr(chart) == "Training history: Loss, Accuracy"
    assert {"Loss", "loss", "val_loss", "Accuracy", "train_accuracy", "val_accuracy", "step"} <= set(texts(chart))
    assert "train_loss" not in texts(chart)  # the loss of every step is there


def test_only_what_is_asked_for_is_drawn_and_unknown_names_are_answered() -> None:
    history = trained([3.0, 2.0])
    assert repr(history.plot("learning_rate")) == "Training history: Learning rate"
    with pytest.raises(pn.UnknownSeriesError, match=r"The history has no 'los'.*Did you mean 'loss'"):
        history.plot("los")


def test_gaps_stay_gaps_and_nothing_that_is_no_number_reaches_the_picture() -> None:
    line = ChartLine("loss", np.arange(6.0), np.array([1.0, 2.0, np.nan, 3.0, np.inf, 4.0]), "#2f86c9")
    for log in (False, True):
        chart = Chart("One", [Panel("Loss", "step", [line], log)])
        assert len(list(parsed(chart).iter(f"{SVG}polyline"))) == 3
        assert "nan" not in chart.to_svg()
        assert "inf" not in chart.to_svg()


@pytest.mark.parametrize("values", [[], [0.0], [5.0], [-1.0, -2.0], [1e-30, 1e30], [0.0, 1.0]])
@pytest.mark.parametrize("log", [False, True])
def test_every_line_stays_inside_of_its_axes(values: list[float], log: bool) -> None:
    line = ChartLine("a", np.arange(float(len(values))), np.array(values), "#2f86c9", dots=True)
    chart = Chart("One", [Panel("A", "step", [line], log)])
    for dot in parsed(chart).iter(f"{SVG}circle"):
        assert 57 <= float(dot.attrib["cx"]) <= 407
        assert 43 <= float(dot.attrib["cy"]) <= 219


def test_what_it_shows_is_said_in_words_and_names_are_escaped() -> None:
    html = Chart("A <b>", [Panel("x & y", "step", [])], ["a < b"]).to_html()
    assert '<figure><img alt="A &lt;b&gt;. a &lt; b" src="data:image/svg+xml;base64,' in html
    assert "<li>a &lt; b</li>" in html
    facts = history_chart(trained([3.0, 2.0])).to_html()
    assert "<li>val_accuracy: 0.25 at the end.</li>" in facts
    assert "<li>train_loss: 1 at the end, least 1.</li>" in facts


def test_a_theme_is_fixed_or_follows_the_reader() -> None:
    chart = history_chart(trained([1.0]))
    assert "prefers-color-scheme" in chart.to_svg()
    assert "prefers-color-scheme" not in chart.to_svg("dark") + chart.to_svg("light")
    assert chart.to_svg("dark") != chart.to_svg("light")


def test_engine_and_history_stay_in_a_saved_notebook() -> None:
    engine: Any = pn.TrainingEngine(nn.Linear(3, 1), (torch.ones(8, 3), torch.ones(8, 1)), epochs=2, device="cpu")
    assert "<img" not in engine._repr_html_() + engine.history._repr_html_()
    assert engine.start().wait(60)
    assert "Epoch 2 of 2, 2 steps" in engine._repr_html_()
    assert "MSELoss (chosen: the targets are floats)" in engine._repr_html_()
    assert "<img alt=" in engine._repr_html_()
    assert "train_loss" in engine.history._repr_html_()
    assert "loss" in engine.history._ipython_key_completions_()


def test_trainings_are_drawn_over_each_other() -> None:
    short, long = trained([3.0, 2.0]), trained([3.0, 2.5, 2.0, 1.5, 1.0])
    chart = short.plot(long, labels=["Adam", "SGD"])
    assert isinstance(chart, Chart)
    panels = {panel.title: panel.lines for panel in chart._panels}
    assert list(panels) == ["Loss", "Val loss", "Train accuracy", "Val accuracy"]
    assert [line.label for line in panels["Loss"] if line.label] == ["Adam", "SGD"]
    assert len({line.colour for line in panels["Loss"]}) == 2
    assert [line.x.max() for line in panels["Loss"] if line.label] == [2, 5]
    assert any("Adam: 2 steps" in fact for fact in chart._facts)
    assert any("SGD: loss: 1" in fact for fact in chart._facts)
    assert {"Adam", "SGD"} <= set(texts(chart))
    only = short.plot("val_accuracy", long)
    assert isinstance(only, Chart)
    assert [panel.title for panel in only._panels] == ["Val accuracy"]
    assert [line.label for line in only._panels[0].lines] == ["run 1", "run 2"]
    without = History()
    without.record(StepFrame(1, 1, 5.0, 0.1, 4, 0.5))
    apart = short.plot(without)
    assert isinstance(apart, Chart)
    assert [line.label for line in apart._panels[1].lines] == ["run 1"]


def test_labels_name_every_training() -> None:
    with pytest.raises(
        pn.ArgumentError, match=r"labels must name each of the 2 trainings, this one first, not \('a',\)"
    ):
        trained([1.0]).plot(trained([2.0]), labels=("a",))
    with pytest.raises(pn.UnknownSeriesError, match="los"):
        trained([1.0]).plot("los", trained([2.0]))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.13, 2.4, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]),
        (-0.4, 0.4, [-0.4, -0.2, 0.0, 0.2, 0.4]),
        (3.0, 3.0, [2.6, 2.8, 3.0, 3.2, 3.4]),
        (0.0, 0.0, [-1.0, -0.5, 0.0, 0.5, 1.0]),
    ],
)
def test_linear(low: float, high: float, ticks: list[float]) -> None:
    assert linear_ticks(low, high) == ticks


def test_whole_numbers_have_no_fractions() -> None:
    assert linear_ticks(0, 3, whole=True) == [0, 1, 2, 3]
    assert linear_ticks(1, 1, whole=True) == [1, 2]
    assert linear_ticks(0, 1, whole=True) == [0, 1]


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_linear_ticks_enclose_the_data(low: float, span: float) -> None:
    ticks = linear_ticks(low, low + span)
    slack = 1e-6 * max(span, abs(low))
    assert ticks[0] <= low + slack
    assert ticks[-1] >= low + span - slack
    assert 2 <= len(ticks) <= 8


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.02, 3.0, [0.01, 0.1, 1.0, 10.0]),
        (0.1, 1.0, [0.1, 0.2, 0.5, 1.0]),
        (0.1, 0.1, [0.1, 0.2, 0.5]),
        (0.95, 2.3, [0.5, 1.0, 2.0, 5.0]),
        (0.03, 0.9, [0.02, 0.05, 0.1, 0.2, 0.5, 1.0]),
        (8.0, 9.0, [2.0, 5.0, 10.0]),
        (1e-9, 1.0, [1e-9, 1e-7, 1e-5, 1e-3, 1e-1, 10.0]),
    ],
)
def test_log(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high) == ticks


@given(st.floats(1e-30, 1e10), st.floats(1.0, 1e20))
def test_log_ticks_enclose_the_data(low: float, factor: float) -> None:
    ticks = log_ticks(low, low * factor)
    assert ticks[0] <= low * (1 + 1e-6)
    assert ticks[-1] >= low * factor * (1 - 1e-6)
    assert ticks == sorted(set(ticks))
    assert 3 <= len(ticks) <= 7
