"""The dashboard's plots: each takes frames, remembers what it needs, and draws itself when asked to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol, final

import bqplot
import ipywidgets
import numpy as np

from pnne_nb.frames import EpochFrame, Frame, HistogramFrame, NormsFrame, StepFrame
from pnne_nb.widgets.figures import PALETTE, drawable, figure, heading, heading_html, panel, positive
from pnne_nb.widgets.curves import Curve, CurveTable

Scale = Literal["linear", "log"]

MAX_LINES: Final = len(PALETTE)
"""Layers whose gradient norms are drawn as lines over time; of more layers, only the latest norms are shown."""

MAX_DOTS: Final = 60
"""Layers that the plot of the latest norms shows at most."""


class Plot(Protocol):
    """One picture of the dashboard. `take` and `draw` are called by the pump's thread only."""

    view: ipywidgets.Widget

    def take(self, frame: Frame) -> None:
        """Remember what `frame` says, if it concerns this plot."""

    def draw(self) -> None:
        """Send what has changed since the last drawing to the browser."""


def _scale(kind: Scale) -> bqplot.Scale:
    return bqplot.LogScale() if kind == "log" else bqplot.LinearScale()


@final
class LossPlot:
    """Training loss of every step, smoothed, and validation loss of every epoch.

    Args:
        scale: Of the loss axis.
    """

    def __init__(self, scale: Scale = "linear") -> None:
        self._log = scale == "log"
        self._training, self._validation = Curve(), Curve()
        x, y = bqplot.LinearScale(), _scale(scale)
        scales = {"x": x, "y": y}
        train, validation = PALETTE[0], PALETTE[1]
        self._training_line = bqplot.Lines(
            x=[], y=[], scales=scales, colors=[train, train], opacities=[0.3, 1.0], stroke_width=1.6
        )
        self._validation_line = bqplot.Lines(
            x=[], y=[], scales=scales, colors=[validation], stroke_width=2, marker="circle", marker_size=24
        )
        self.figure = figure([self._training_line, self._validation_line], x=x, y=y, x_label="step", y_label="loss")
        self.view = panel(heading("Loss", [("training", train), ("validation", validation)]), self.figure)
        self._training_changed = self._validation_changed = False

    def take(self, frame: Frame) -> None:
        """Remember a step's training loss or an epoch's validation loss."""
        match frame:
            case StepFrame():
                self._training.append(frame.step, frame.loss)
                self._training_changed = True
            case EpochFrame() if "val_loss" in frame.metrics:
                self._validation.append(frame.step, frame.metrics["val_loss"])
                self._validation_changed = True
            case _:
                pass

    def draw(self) -> None:
        """Send the changed curves."""
        if self._training_changed:
            self._training_changed = False
            x, raw, smooth = self._training.points()
            y = np.stack([raw, smooth])
            _set_line(self._training_line, x, positive(y) if self._log else y)
        if self._validation_changed:
            self._validation_changed = False
            x, y, _ = self._validation.points()
            _set_line(self._validation_line, x, positive(y) if self._log else y)


@final
class MetricPlot:
    """One metric per epoch, on the training and on the validation data.

    Args:
        metric: Its name, such as ``"accuracy"``. None takes the first metric that the first epoch reports
            beside the loss, or the loss where there is no other.
    """

    def __init__(self, metric: str | None = None) -> None:
        x, y = bqplot.LinearScale(), bqplot.LinearScale()
        self._curves = {"train": Curve(), "val": Curve()}
        self._lines = {
            split: bqplot.Lines(
                x=[], y=[], scales={"x": x, "y": y}, colors=[colour], stroke_width=2, marker="circle", marker_size=24
            )
            for split, colour in zip(self._curves, PALETTE, strict=False)
        }
        self._changed: set[str] = set()
        self.figure = figure(list(self._lines.values()), x=x, y=y, x_label="epoch", y_label="")
        self._heading = heading("Metric")
        self.view = panel(self._heading, self.figure)
        self._named = False
        self.metric = metric

    def take(self, frame: Frame) -> None:
        """Remember an epoch's value of the metric."""
        if isinstance(frame, EpochFrame):
            if self.metric is None:
                self.metric = _first_metric(frame)
            for split, curve in self._curves.items():
                value = frame.metrics.get(f"{split}_{self.metric}")
                if value is not None:
                    curve.append(frame.epoch, value)
                    self._changed.add(split)

    def draw(self) -> None:
        """Send the changed curves."""
        if not self._named and self.metric is not None:
            self._named = True
            words = self.metric.replace("_", " ")
            keys = [("training", PALETTE[0]), ("validation", PALETTE[1])]
            self._heading.value = heading_html(f"{words[:1].upper()}{words[1:]} by epoch", keys)
            self.figure.axes[1].label = words
        for split in sorted(self._changed):
            x, y, _ = self._curves[split].points()
            _set_line(self._lines[split], x, y)
        self._changed.clear()


@final
class NormPlot:
    """Gradient norm by layer: lines over the steps for a few layers, a dot for each of many.

    Args:
        layers: Paths of the layers that have parameters, in the model's order.
    """

    def __init__(self, layers: Sequence[str]) -> None:
        self._layers = list(layers)
        self._table = CurveTable()
        self._changed = False
        self._lines: bqplot.Lines | None = None
        self._dots: bqplot.Scatter | None = None
        log = bqplot.LogScale()
        if len(layers) <= MAX_LINES:
            steps = bqplot.LinearScale()
            self._lines = bqplot.Lines(x=[], y=[], scales={"x": steps, "y": log}, colors=list(PALETTE), stroke_width=1.6)
            self.figure = figure([self._lines], x=steps, y=log, x_label="step", y_label="gradient norm", y_format=".0e")
            keys = zip(layers, PALETTE, strict=False)
            self.view = panel(heading("Gradient norm", keys), self.figure)
        else:
            self._layers = self._layers[:: -(-len(layers) // MAX_DOTS)]
            names = bqplot.OrdinalScale(domain=self._layers, reverse=True)
            self._dots = bqplot.Scatter(
                x=[], y=[], scales={"x": log, "y": names}, colors=[PALETTE[0]], default_size=36
            )
            self.figure = figure(
                [self._dots],
                x=log,
                y=names,
                x_label="gradient norm of the latest frame",
                y_label="",
                x_format=".0e",
                y_format=None,
                left=min(220, 20 + 7 * max(map(len, self._layers))),
                height=60 + 16 * len(self._layers),
            )
            shown = "" if len(self._layers) == len(layers) else f", {len(self._layers)} of {len(layers)} layers"
            self.view = panel(heading(f"Gradient norm by layer{shown}"), self.figure)

    def take(self, frame: Frame) -> None:
        """Remember the norms of one step."""
        if isinstance(frame, NormsFrame):
            self._table.append(frame.step, {name: frame.norms.get(name, float("nan")) for name in self._layers})
            self._changed = True

    def draw(self) -> None:
        """Send the curves, or the dots, if they have changed."""
        if not self._changed:
            return
        self._changed = False
        if self._lines is not None:
            x, y = self._table.table()
            _set_line(self._lines, x, positive(y))
        if self._dots is not None:
            norms = np.asarray([self._table.latest[name] for name in self._layers], dtype=np.float32)
            seen = np.isfinite(norms) & (norms > 0)
            with self._dots.hold_sync():
                self._dots.x = norms[seen]
                self._dots.y = [name for name, there in zip(self._layers, seen, strict=True) if there]


@final
class HistogramPlot:
    """The distribution of one quantity at the layer chosen last."""

    def __init__(self, above: ipywidgets.Widget | None = None) -> None:
        x, y = bqplot.LinearScale(), bqplot.LinearScale(min=0.0)
        self._bars = bqplot.Bars(
            x=[], y=[], scales={"x": x, "y": y}, colors=[PALETTE[2]], padding=0.0, stroke=None, opacities=[0.85]
        )
        self.figure = figure([self._bars], x=x, y=y, x_label="value", y_label="sampled elements", y_format="~s")
        self._heading = heading("Histogram") if above is None else above
        self._titled = above is None
        self.view = panel(self._heading, self.figure)
        self.latest: HistogramFrame | None = None
        self._changed = False

    def take(self, frame: Frame) -> None:
        """Remember the latest histogram."""
        if isinstance(frame, HistogramFrame):
            self.latest = frame
            self._changed = True

    def draw(self) -> None:
        """Send the latest histogram, if there is a new one."""
        if not self._changed or self.latest is None:
            return
        self._changed = False
        frame = self.latest
        edges = np.linspace(frame.lower, frame.upper, len(frame.counts) + 1)
        with self._bars.hold_sync():
            self._bars.x = ((edges[:-1] + edges[1:]) / 2).astype(np.float32)
            self._bars.y = np.asarray(frame.counts, dtype=np.float32)
        if self._titled:
            self._heading.value = heading_html(f"{frame.quantity.replace('_', ' ')} of {frame.layer}".capitalize())


def _set_line(line: bqplot.Lines, x: np.ndarray, y: np.ndarray) -> None:
    with line.hold_sync():
        line.x = drawable(x)
        line.y = drawable(y)


def _first_metric(frame: EpochFrame) -> str:
    names = [name.split("_", 1)[1] for name in frame.metrics if "_" in name]
    return next((name for name in names if name != "loss"), "loss")
