"""Plots see only frames, send only what has changed, and never more than a thousand float32 points a line."""

from __future__ import annotations

import math
from collections.abc import Iterable

import bqplot
import ipywidgets
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.runtime.monitoring.history import EDITED
from pnne_nb.telemetry.frames import (
    AnomalyFrame,
    EpochFrame,
    Frame,
    HistogramFrame,
    NormsFrame,
    ProgressFrame,
    StepFrame,
)
from pnne_nb.widgets.plots.figures import MAX_MARKED, UNMEASURED
from pnne_nb.widgets.plots.layer_plots import (
    MAX_DOTS,
    MAX_METRICS,
    HistogramPlot,
    MetricPlot,
    MetricPlots,
    NormPlot,
    short_paths,
)
from pnne_nb.widgets.plots.loss_plot import LossPlot
from pnne_nb.widgets.plots.plot import Plot
from pnne_nb.widgets.plots.svg_chart import PALETTE

pytestmark = pytest.mark.usefixtures("own_widgets")

UNRELATED = ProgressFrame(1, 1, 1, None, 1, 1.0, None)


def step(number: int, loss: float = 1.0) -> StepFrame:
    return StepFrame(number, 1, loss, 0.1, 1, 0.0)


def show(plot: Plot, frames: Iterable[Frame]) -> None:
    for frame in [*frames, UNRELATED]:
        plot.take(frame)
    plot.draw()


def marks(plot: LossPlot | MetricPlot | NormPlot | HistogramPlot) -> list[bqplot.Mark]:
    found: list[bqplot.Mark] = plot.figure.marks
    return found


def heading(plot: Plot) -> str:
    text: str = plot.view.children[0].value
    return text


def test_loss_raw_smoothed_and_validated() -> None:
    plot = LossPlot()
    show(plot, [step(1, 4.0), step(2, 2.0), EpochFrame(1, 2, {"val_loss": 3.0, "train_loss": 3.0})])
    training, validation, *_ = marks(plot)
    assert training.x.tolist() == [1, 2]
    assert training.y.shape == (2, 2)
    assert training.y[0].tolist() == [4, 2]
    assert validation.x.tolist() == [2, 2]
    assert validation.y.tolist() == [3, 3]
    axes = plot.figure.axes
    assert [axis.label for axis in axes if axis.visible] == ["step", "loss"]
    assert "training" in heading(plot)
    assert "validation" in heading(plot)


def test_an_edit_cuts_the_curve_and_is_marked() -> None:
    plot = LossPlot()
    edits = [AnomalyFrame(number, EDITED, "The graph was edited.") for number in (2, 4)]
    frames: list[Frame] = [step(1, 1.0), step(2, 1.0), edits[0], step(3, 9.0), step(4, 9.0), edits[1], step(5, 4.0)]
    show(plot, frames)
    training, _, lines, *_ = marks(plot)
    assert training.y[1].tolist() == [1, 1, 9, 9, 4], "what is smoothed begins anew"
    assert lines.x.tolist() == [[2.5, 2.5], [4.5, 4.5]]
    assert lines.y.tolist() == [[0, 1], [0, 1]]
    other = LossPlot()
    show(other, [step(1), AnomalyFrame(1, "nan-loss", "The loss is NaN."), step(2)])
    assert len(marks(other)[2].x) == 0


def test_each_edit_is_marked_when_it_happens() -> None:
    plot = LossPlot()
    for number in (2, 4, 6):
        show(plot, [step(number), AnomalyFrame(number, EDITED, "The graph was edited.")])
        assert np.atleast_2d(marks(plot)[2].x)[:, 0].tolist() == [at + 0.5 for at in range(2, number + 1, 2)]


def test_many_epochs_are_a_line_without_dots() -> None:
    plot = MetricPlot()
    epochs = [EpochFrame(number, number, {"train_accuracy": 0.5}) for number in range(1, MAX_MARKED + 2)]
    show(plot, epochs[:-1])
    assert marks(plot)[0].marker == "circle"
    show(plot, epochs[-1:])
    assert marks(plot)[0].marker is None


def test_a_hundred_thousand_steps_are_a_thousand_float32_points() -> None:
    plot = LossPlot()
    show(plot, (step(number, math.sin(number)) for number in range(100_000)))
    line = marks(plot)[0]
    assert line.x.size <= 1000
    assert line.x.dtype == line.y.dtype == np.float32


def test_nothing_is_sent_when_nothing_has_changed() -> None:
    plots: list[Plot] = [LossPlot(), MetricPlot(), NormPlot(["a"]), HistogramPlot(ipywidgets.HTML())]
    for plot in plots:
        show(plot, [])
        sent: list[object] = []
        for mark in marks(plot):  # type: ignore[arg-type]  # each of the four has a figure
            mark.observe(sent.append, ["x", "y"])
        plot.draw()
        assert sent == []


def test_a_log_scale_leaves_gaps_where_the_loss_is_not_positive() -> None:
    plot = LossPlot("log")
    show(plot, [step(1, 10.0), step(2, -1.0), step(3, 0.1)])
    assert isinstance(plot.figure.axes[1].scale, bqplot.LogScale)
    assert np.isnan(marks(plot)[0].y[0]).tolist() == [False, True, False]


def test_the_loss_is_shown_on_the_other_scale_when_it_is_wanted() -> None:
    plot = LossPlot()
    show(plot, [step(1, 10.0), step(2, -1.0), EpochFrame(1, 2, {"val_loss": 3.0})])
    linear, checked, _, log, log_checked = marks(plot)
    assert (linear.visible, log.visible, log.x.size) == (True, False, 0)
    plot.log = True
    assert plot.is_due()
    plot.draw()
    assert [mark.visible for mark in (linear, checked, log, log_checked)] == [False, False, True, True]
    assert [axis.scale.__class__ for axis in plot.figure.axes[1:] if axis.visible] == [bqplot.LogScale]
    assert np.isnan(log.y[0]).tolist() == [False, True]
    assert log_checked.y.tolist() == [3.0, 3.0]
    show(plot, [step(3, 5.0)])
    assert (linear.x.size, log.x.size) == (2, 3), "what is out of sight is not drawn"
    plot.log = False
    plot.draw()
    assert linear.x.size == 3
    assert linear.visible


def test_a_loss_that_explodes_keeps_what_can_be_drawn() -> None:
    plot = LossPlot()
    show(plot, [step(1, 1.0), step(2, math.inf), step(3, math.nan), step(4, 2.0)])
    raw, smooth = marks(plot)[0].y
    assert np.isnan(raw).tolist() == [False, True, True, False]
    assert np.isfinite(smooth).all()
    assert plot.figure.axes[1].scale.max < 10


@pytest.mark.parametrize(
    ("metrics", "metric", "title"),
    [
        ({"train_loss": 1.0, "train_accuracy": 0.5, "val_loss": 1.0, "val_accuracy": 0.4}, "accuracy", "Accuracy"),
        ({"train_loss": 1.0, "train_mean_error": 0.5, "val_mean_error": 0.4}, "mean_error", "Mean error"),
        ({"train_loss": 0.5, "val_loss": 0.4}, "loss", "Loss"),
    ],
)
def test_the_first_epoch_decides_which_metric_is_shown(metrics: dict[str, float], metric: str, title: str) -> None:
    plot = MetricPlot()
    show(plot, [EpochFrame(1, 10, metrics)])
    assert plot.metric == metric
    assert f"{title} by epoch" in heading(plot)
    assert [mark.y[0] for mark in marks(plot)] == pytest.approx([0.5, 0.4])


def test_each_metric_has_a_plot_from_the_epoch_that_names_it() -> None:
    plot = MetricPlots()
    assert len(plot.view.children) == 1
    show(plot, [EpochFrame(1, 10, {"train_loss": 1.0, "train_accuracy": 0.5, "train_f1": 0.4})])
    late = {"train_accuracy": 0.6, "train_f1": 0.5, "val_accuracy": 0.5, "val_f1": 0.3, "val_recall": 0.2}
    show(plot, [EpochFrame(2, 20, late)])
    headings = [panel.children[0].value for panel in plot.view.children]
    for text, name in zip(headings, ("Accuracy", "F1", "Recall"), strict=True):
        assert f"{name} by epoch" in text
    figures = [panel.children[1] for panel in plot.view.children]
    assert [figure.marks[0].x.tolist() for figure in figures] == [[1, 2], [1, 2], []]
    assert [figure.marks[1].y[0] for figure in figures] == pytest.approx([0.5, 0.3, 0.2])


def test_many_metrics_are_plotted_as_far_as_there_is_room() -> None:
    plot = MetricPlots()
    show(plot, [EpochFrame(1, 10, {f"val_accuracy_{label}": 0.5 for label in range(10)})])
    assert len(plot.view.children) == MAX_METRICS


def test_without_validation_there_is_one_curve() -> None:
    plot = MetricPlot("accuracy")
    show(plot, [EpochFrame(1, 10, {"train_accuracy": 0.5}), EpochFrame(2, 20, {"train_accuracy": 0.6})])
    training, validation = marks(plot)
    assert training.x.tolist() == [1, 2]
    assert validation.x.size == 0


def test_few_layers_are_lines_with_a_legend_above() -> None:
    plot = NormPlot(["conv1", "fc"])
    assert UNMEASURED in heading(plot)
    frames = [NormsFrame(1, {"conv1": 0.5, "fc": 0.0}, 0.5), NormsFrame(9, {"fc": 2.0}, 2.0)]
    show(plot, frames)
    (lines,) = marks(plot)
    assert lines.x.tolist() == [1, 9]
    floor = np.float32(plot._norm.scale.min)
    np.testing.assert_array_equal(lines.y, np.array([[0.5, np.nan], [floor, 2.0]], np.float32))
    assert "conv1" in heading(plot)
    assert UNMEASURED not in heading(plot)
    assert lines.colors == list(PALETTE[:2])


def test_one_layer_is_one_line() -> None:
    plot = NormPlot(["fc"])
    show(plot, [NormsFrame(1, {"fc": 1.0}, 1.0)])
    assert marks(plot)[0].y.size == 2


def test_many_layers_are_dots_in_the_models_order() -> None:
    layers = [f"layer{index}" for index in range(20)]
    plot = NormPlot(layers)
    show(plot, [NormsFrame(1, dict.fromkeys(layers[:5], 0.1) | {"layer6": 0.0}, 1.0)])
    (dots,) = marks(plot)
    assert dots.y.tolist() == layers[:5]
    assert dots.scales["y"].domain == layers


def test_parameters_of_no_layer_are_named_after_the_model() -> None:
    assert "(model)" in heading(NormPlot(["", "fc"]))
    rows = NormPlot(["", *(f"layer{index}" for index in range(20))]).figure.axes[1]
    assert rows.tick_labels[""] == "(model)"


def test_why_a_loss_was_chosen_is_said_below_it() -> None:
    plot = LossPlot(title="Loss: MSELoss", why="MSELoss was chosen.")
    assert "MSELoss" in heading(plot)
    assert plot.view.children[-1].value == "MSELoss was chosen."


def test_very_many_layers_are_thinned_out_and_said_so() -> None:
    plot = NormPlot([f"layer{index}" for index in range(500)])
    shown = marks(plot)[0].scales["y"].domain
    assert len(shown) == MAX_DOTS
    assert (shown[0], shown[-1]) == ("layer0", "layer499")
    assert f"{MAX_DOTS} of 500 layers" in heading(plot)


def test_long_names_are_short_beside_the_dots_and_whole_on_hover() -> None:
    kinds = ("self_attn.out_proj", "linear1", "norm1", "norm2")
    layers = [f"encoder.layers.{block}.{kind}" for block in range(12) for kind in kinds]
    plot = NormPlot([*layers, "head"])
    show(plot, [NormsFrame(1, {layers[-1]: 0.1}, 0.1)])
    (dots,) = marks(plot)
    rows = plot.figure.axes[1]
    assert rows.tick_labels[layers[-1]] == "encoder…11.norm2"
    assert plot.figure.fig_margin["left"] >= 7 * max(map(len, rows.tick_labels.values()))
    assert dots.y.tolist() == ["encoder.layers.11.norm2"]
    assert dots.tooltip.fields == ["y", "x"]


@pytest.mark.parametrize(("layers", "rows"), [(9, 1), (30, 2), (500, 3)])
def test_as_many_plots_stand_beside_the_norms_as_fit(layers: int, rows: int) -> None:
    plot = NormPlot([f"layer{index}" for index in range(layers)])
    assert plot.view.layout.grid_area == f"span {rows}"


def test_the_latest_histogram_wins() -> None:
    plot = HistogramPlot(ipywidgets.HTML())
    first = HistogramFrame(1, "conv1", "activations", -1.0, 1.0, (1, 2), 3, 3)
    show(plot, [first, HistogramFrame(2, "fc", "parameter_gradients", 0.0, 4.0, (5, 0, 7, 1), 13, 26)])
    (bars,) = marks(plot)
    assert bars.x.tolist() == [0.5, 1.5, 2.5, 3.5]
    assert bars.y.tolist() == [5, 0, 7, 1]


def test_a_histogram_may_have_a_heading_of_its_own() -> None:
    above = ipywidgets.Label("mine")
    plot = HistogramPlot(above)
    show(plot, [HistogramFrame(1, "conv1", "activations", 0.0, 0.0, (3,), 3, 3)])
    assert plot.view.children[0] is above
    assert above.value == "mine"


def test_a_layer_without_a_gradient_has_no_line_and_its_neighbour_keeps_its_colour() -> None:
    plot = NormPlot(["frozen", "fc"])
    show(plot, [NormsFrame(1, {"fc": 0.5}, 0.5), NormsFrame(2, {"fc": 0.25}, 0.25)])
    (lines,) = marks(plot)
    assert lines.y.tolist() == [0.5, 0.25]
    assert lines.colors == [PALETTE[1]]


def test_the_legend_names_only_what_is_drawn() -> None:
    loss, metric = LossPlot(), MetricPlot()
    show(loss, [StepFrame(1, 1, 2.0, 0.1, 4, 0.1)])
    show(metric, [EpochFrame(1, 1, {"train_loss": 2.0, "train_accuracy": 0.5})])
    for plot in (loss, metric):
        assert "training" in heading(plot)
        assert "validation" not in heading(plot)
    show(loss, [EpochFrame(1, 1, {"train_loss": 2.0, "val_loss": 2.0})])
    show(metric, [EpochFrame(2, 2, {"train_accuracy": 0.5, "val_accuracy": 0.5})])
    for plot in (loss, metric):
        assert "validation" in heading(plot)


PARTS = ("self_attn", "self_attn.out_proj", "linear1", "linear2", "norm1", "norm2")


def blocks(prefix: str, parts: tuple[str, ...] = PARTS) -> list[str]:
    return [f"{prefix}.{block}.{part}" for block in range(12) for part in parts]


def test_names_that_fit_stay_as_they_are() -> None:
    assert short_paths(["encoder.layers.0", "encoder.layers.1"], 16) == ["encoder.layers.0", "encoder.layers.1"]
    assert short_paths([], 10) == []


def test_what_all_names_begin_with_goes_without_a_trace() -> None:
    assert short_paths(["net.body.first", "net.body.second"], 10) == ["first", "second"]


def test_a_word_without_siblings_becomes_an_ellipsis() -> None:
    short = short_paths(["embed", *blocks("encoder.layers"), "head"], 34)
    assert short[0] == "embed"
    assert short[1:3] == ["encoder…0.self_attn", "encoder…0.self_attn.out_proj"]
    assert short[-2:] == ["encoder…11.norm2", "head"]


def test_what_differs_stays_however_early_it_stands() -> None:
    decoder = blocks("decoder.layers", (*PARTS, "multihead_attn.out_proj"))
    short = short_paths([*blocks("encoder.layers"), *decoder], 34)
    assert short[-1] == "decoder…11.multihead_attn.out_proj"
    assert len(set(short)) == len(short)


def test_first_words_go_while_the_rest_tells_enough() -> None:
    parts = ("attention.self.query", "attention.output.dense", "output.dense")
    names = ["bert.embeddings.words", *blocks("bert.encoder.layer", parts), "bert.pooler.dense", "classifier"]
    short = short_paths(names, 30)
    assert short[0] == "words"
    assert short[-5:] == [
        "11.attention.self.query",
        "11.attention.output.dense",
        "11.output.dense",
        "dense",
        "classifier",
    ]


def test_a_name_that_is_still_too_long_keeps_its_end() -> None:
    assert short_paths(["a" * 20 + "1", "a" * 20 + "2"], 5) == ["…aaa1", "…aaa2"]


WORDS = st.text(alphabet="ab1", min_size=1, max_size=4)
PATHS = st.lists(st.lists(WORDS, min_size=1, max_size=5).map(".".join), min_size=1, max_size=20, unique=True)


@given(PATHS, st.integers(2, 30))
def test_none_is_longer_than_allowed_and_each_ends_as_it_did(paths: list[str], limit: int) -> None:
    short = short_paths(paths, limit)
    assert len(short) == len(paths)
    for path, name in zip(paths, short, strict=True):
        assert len(name) <= limit
        last = path.rpartition(".")[2]
        assert name.endswith(last) or (name.startswith("…") and last.endswith(name[1:]))


@given(PATHS)
def test_no_two_are_the_same_unless_one_had_to_be_cut(paths: list[str]) -> None:
    for limit in range(2, max(map(len, paths)) + 1):
        short = short_paths(paths, limit)
        if not any(name.startswith("…") for name in short):
            assert len(set(short)) == len(short)
