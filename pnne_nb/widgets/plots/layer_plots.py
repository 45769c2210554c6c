"""The dashboard's plots of metrics and layers, whose paths are shortened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, final

import bqplot
import ipywidgets
import numpy as np

from pnne_nb.telemetry.frames import EpochFrame, Frame, HistogramFrame, NormsFrame
from pnne_nb.widgets.plots import figures
from pnne_nb.widgets.plots.curves import Curve, CurveTable
from pnne_nb.widgets.plots.plot import Growth, Plot
from pnne_nb.widgets.plots.svg_chart import PALETTE

MAX_LINES: Final = len(PALETTE)
"""Most layers whose gradient norms are drawn as lines over time; for more layers, only the latest norms are shown."""

MAX_DOTS: Final = 60
"""Most layers in the plot of the latest norms."""

MAX_METRICS: Final = 6
"""Most metrics with a plot; the history has all."""

MAX_LETTERS: Final = 34
"""Most letters of a layer's name beside its dot; the tooltip has the full name."""
LETTER: Final = 7
"""Width of a letter in pixels, for a wide font."""

ROW: Final = 13
"""Height of one layer's row in pixels."""

BESIDE: Final = 3
"""Number of plots after the norms: the histogram, memory and time."""


ROOT: Final = "(model)"
"""Label of parameters that belong to no layer."""


@final
class MetricPlot(Plot):
    """One metric per epoch, on the training and on the validation data.

    Args:
        metric: Its name, such as ``"accuracy"``. None takes the first metric that the first epoch reports
            beside the loss, or the loss where there is no other.
    """

    def __init__(self, metric: str | None = None) -> None:
        self._curves = {"train": Curve(), "val": Curve()}
        self._x = figures.NumberAxis("epoch", whole=True)
        self._y = figures.NumberAxis("", vertical=True)
        scales = {"x": self._x.scale, "y": self._y.scale}
        self._lines = {
            split: figures.dotted(scales, colour)
            for split, (_, colour) in zip(self._curves, (figures.TRAINING, figures.VALIDATION), strict=True)
        }
        self._heading = figures.heading("Metric by epoch")
        self.figure = figures.Figure(list(self._lines.values()), [self._x.axis, self._y.axis])
        self.view = figures.panel(self._heading, self.figure)
        self._changed = False
        self.metric = metric

    def take(self, frame: Frame) -> None:
        """Remember an epoch's value of the metric."""
        if not isinstance(frame, EpochFrame):
            return
        if self.metric is None:
            self.metric = next(iter(_metrics(frame)), "loss")
        for split, curve in self._curves.items():
            value = frame.metrics.get(
                f"{split}_{self.metric}", frame.metrics.get(self.metric) if split == "val" else None
            )
            if value is not None:
                curve.append(frame.epoch, value)
                self._changed = True

    def draw(self) -> None:
        """Send the changed curves."""
        if not self._changed:
            return
        self._changed = False
        points = {split: curve.points()[:2] for split, curve in self._curves.items() if curve.count}
        self._name(
            [key for key, split in ((figures.TRAINING, "train"), (figures.VALIDATION, "val")) if split in points]
        )
        self._x.fit(np.concatenate([x for x, _ in points.values()]))
        self._y.fit(np.concatenate([y for _, y in points.values()]))
        for split, (x, y) in points.items():
            figures.set_dotted(self._lines[split], x, y)

    def _name(self, keys: Sequence[tuple[str, str]]) -> None:
        """Update the heading; an unchanged one is not sent again."""
        words = (self.metric or "").replace("_", " ")
        self._heading.value = figures.heading_html(f"{words[:1].upper()}{words[1:]} by epoch", keys)
        self._y.axis.label = words


@final
class MetricPlots(Plot):
    """A plot for each of the first few metrics, as the epochs name them; one from the beginning."""

    def __init__(self) -> None:
        self._plots = [MetricPlot()]
        self.view = ipywidgets.Box([self._plots[0].view])
        self.view.add_class("pnne-metrics")

    def take(self, frame: Frame) -> None:
        """Remember an epoch's values of the metrics."""
        if not isinstance(frame, EpochFrame):
            return
        for plot in self._plots:
            plot.take(frame)
        shown = {plot.metric for plot in self._plots}
        for name in _metrics(frame):
            if name not in shown and len(self._plots) < MAX_METRICS:
                self._plots.append(MetricPlot(name))
                self._plots[-1].take(frame)
                # At once, so that whoever closes the dashboard finds it.
                self.view.children = [plot.view for plot in self._plots]

    def draw(self) -> None:
        """Send the changed curves."""
        for plot in self._plots:
            plot.draw()


@final
class NormPlot(Plot):
    """Gradient norm by layer: lines over the steps for a few layers, a dot for each of many.

    Args:
        layers: Paths of the layers that have parameters, in the model's order.
    """

    def __init__(self, layers: Sequence[str]) -> None:
        self._growth = Growth()
        self._changed = False
        self._norm = figures.NumberAxis("gradient norm", vertical=len(layers) <= MAX_LINES, log=True)
        self._steps = figures.NumberAxis("step", whole=True)
        self._lines: bqplot.Lines | None = None
        self._dots: bqplot.Scatter | None = None
        height = figures.HEIGHT
        if len(layers) <= MAX_LINES:
            shown = list(layers)
            self._lines = figures.lines({"x": self._steps.scale, "y": self._norm.scale}, list(PALETTE))
            self.figure = figures.Figure([self._lines], [self._steps.axis, self._norm.axis])
            self._title, self._keys = (
                "Gradient norm",
                [(layer or ROOT, colour) for layer, colour in zip(layers, PALETTE, strict=False)],
            )
        else:
            # Evenly spread, if there are too many.
            count = min(len(layers), MAX_DOTS)
            shown = [layers[round(place)] for place in np.linspace(0, len(layers) - 1, count)]
            names = bqplot.OrdinalScale(domain=shown, reverse=True)
            self._dots = bqplot.Scatter(
                x=[],
                y=[],
                scales={"x": self._norm.scale, "y": names},
                colors=[PALETTE[0]],
                default_size=36,
                tooltip=bqplot.Tooltip(fields=["y", "x"], labels=["layer", "gradient norm"], formats=["", ".3g"]),
            )
            short = short_paths([layer or ROOT for layer in shown], MAX_LETTERS)
            rows = bqplot.Axis(
                scale=names, side="left", grid_lines="none", tick_labels=dict(zip(shown, short, strict=True))
            )
            left = 20 + LETTER * max(map(len, short))
            height = 60 + ROW * len(shown)
            self.figure = figures.Figure([self._dots], [self._norm.axis, rows], left=left, height=height)
            part = "" if len(shown) == len(layers) else f", {len(shown)} of {len(layers)} layers"
            self._title, self._keys = f"Gradient norm by layer{part}", []
        self._heading = figures.heading(self._title, self._keys, figures.UNMEASURED)
        self.view = figures.panel(self._heading, self.figure)
        # Beside a plot as high as several stand several, not one and a hole. (The browser's side of ipywidgets undoes
        # `grid_row` where there is no `grid_area`.)
        if self._dots is not None:
            self.view.layout.grid_area = f"span {min(BESIDE, max(1, round(height / figures.HEIGHT)))}"
        self._table = CurveTable(shown)

    def take(self, frame: Frame) -> None:
        """Remember the norms of one step."""
        if isinstance(frame, NormsFrame):
            self._table.append(frame.step, frame.norms)
            self._growth.newest = frame.step
            self._changed = True

    def is_due(self) -> bool:
        """Return whether the lines have grown visibly; dots change with every frame."""
        return self._dots is not None or self._growth.is_visible()

    def draw(self) -> None:
        """Send the changed curves or dots."""
        if not self._changed:
            return
        self._changed = False
        self._heading.value = figures.heading_html(self._title, self._keys)
        self._growth.drawn()
        if self._lines is not None:
            x, y = self._table.table()
            self._steps.fit(np.append(x[-1:], np.float32(0)))
            self._norm.fit(y)
            # A layer that never had a gradient (it is frozen) has no line: bqplot fails at one without a point. One
            # whose gradient is 0 runs along the bottom of the logarithmic axis.
            drawn = np.atleast_1d(np.isfinite(y).any(axis=1))
            values = np.where(y == 0, np.float32(self._norm.scale.min), y)[drawn]
            self._lines.colors = [colour for colour, there in zip(PALETTE, drawn, strict=False) if there]
            figures.set_line(self._lines, x if drawn.any() else x[:0], values)
        if self._dots is not None:
            norms = self._table.latest
            seen = norms > 0
            self._norm.fit(norms)
            with self._dots.hold_sync():
                self._dots.x = norms[seen]
                self._dots.y = [name for name, there in zip(self._table.names, seen, strict=True) if there]


@final
class LateNorms(Plot):
    """The gradient norms of a model whose layers are not known before the first of them."""

    def __init__(self) -> None:
        self._plot: NormPlot | None = None
        self.view = ipywidgets.Box()
        self.view.add_class("pnne-metrics")

    def take(self, frame: Frame) -> None:
        """Remember the norms of one step."""
        if self._plot is None and isinstance(frame, NormsFrame):
            self._plot = NormPlot(list(frame.norms))
            self.view.children = [self._plot.view]
        if self._plot is not None:
            self._plot.take(frame)

    def is_due(self) -> bool:
        """Return whether the norms have changed visibly."""
        return self._plot is not None and self._plot.is_due()

    def draw(self) -> None:
        """Send the changed norms."""
        if self._plot is not None:
            self._plot.draw()


@final
class HistogramPlot(Plot):
    """The distribution of one quantity at one layer."""

    def __init__(self, above: ipywidgets.Widget) -> None:
        self._x = figures.NumberAxis("value")
        self._y = figures.NumberAxis("sampled elements", vertical=True, zero=True)
        self._bars = bqplot.Bars(
            x=[],
            y=[],
            scales={"x": self._x.scale, "y": self._y.scale},
            colors=[PALETTE[2]],
            padding=0.0,
            stroke=None,
            opacities=[0.85],
        )
        self.figure = figures.Figure([self._bars], [self._x.axis, self._y.axis])
        self.view = figures.panel(above, self.figure)
        self.latest: HistogramFrame | None = None
        self.log = False  # may be set from any thread, for the next drawing
        self._drawn_log = False
        self._changed = False

    def take(self, frame: Frame) -> None:
        """Remember the latest histogram."""
        if isinstance(frame, HistogramFrame):
            self.latest = frame
            self._changed = True

    @property
    def stale(self) -> bool:
        """Whether the chosen scale differs from the drawn one."""
        return self.latest is not None and self.log != self._drawn_log

    def draw(self) -> None:
        """Send the latest histogram, if there is a new one."""
        if self.latest is None or not (self._changed or self.stale):
            return
        self._changed, self._drawn_log = False, self.log
        frame = self.latest
        edges = np.linspace(frame.lower, frame.upper, len(frame.counts) + 1, dtype=np.float32)
        counts = np.asarray(frame.counts, dtype=np.float32)
        if self._drawn_log:
            # Bars stand on 0: an axis of its own kind would have none.
            counts = np.log10(1 + counts)
        self._y.axis.label = "sampled elements, log₁₀(1 + n)" if self._drawn_log else "sampled elements"
        self._x.fit(edges)
        self._y.fit(counts)
        with self._bars.hold_sync():
            self._bars.x = (edges[:-1] + edges[1:]) / 2
            self._bars.y = counts


def _metrics(frame: EpochFrame) -> list[str]:
    """Return the names of an epoch's metrics besides the loss, each once."""
    names = dict.fromkeys(name.removeprefix("train_").removeprefix("val_") for name in frame.metrics)
    return [name for name in names if name != "loss"]


Words = tuple[str, ...]


def short_paths(paths: Sequence[str], limit: int) -> list[str]:
    """Shorten `paths` consistently, so that they stay distinct; short ones are not changed.

    A word that has no sibling says nothing: ``encoder.layers.11.norm1`` becomes ``encoder…11.norm1``. While that is
    too long, the first words go too, ``11.norm1``, if nothing else is called so. What is longer even then loses its
    beginning, which an ellipsis stands for.

    Args:
        paths: Words joined by dots, each path once.
        limit: Letters of each at most; at least 2.
    """
    if max(map(len, paths), default=0) <= limit:
        return list(paths)
    split = [tuple(path.split(".")) for path in paths]
    telling = _telling(split)
    shown = found = [_joined(words, kept) for words, kept in zip(split, telling, strict=True)]
    for dropped in range(1, max(map(len, telling))):
        if max(map(len, found)) <= limit:
            break
        found = [
            _joined(words, kept[min(dropped, len(kept) - 1) :]) for words, kept in zip(split, telling, strict=True)
        ]
        if len(set(found)) < len(found):
            break
        shown = found
    return [name if len(name) <= limit else f"…{name[1 - limit :]}" for name in shown]


def _telling(paths: Sequence[Words]) -> list[list[int]]:
    """Return for each path the positions of its words with siblings, and of the last word."""
    following: dict[Words, set[Words]] = defaultdict(set)
    for words in paths:
        for place in range(len(words) + 1):
            following[words[:place]].add(words[place : place + 1])
    return [
        [place for place in range(len(words)) if len(following[words[:place]]) > 1 or place == len(words) - 1]
        for words in paths
    ]


def _joined(words: Words, kept: Sequence[int]) -> str:
    """Return the words at the positions `kept`, with an ellipsis for gaps."""
    text = words[kept[0]]
    for before, place in pairwise(kept):
        text += ("." if place == before + 1 else "…") + words[place]
    return text
