"""`LearningRateFinder`: shows `pn.find_learning_rate` while it measures, with a handle on the curve that sets the rate."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any, Final, final

import bqplot
import ipywidgets
import numpy as np
from numpy.typing import NDArray

from pnne_nb.errors import PnneError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.learning_rate import LearningRateSearch, find_learning_rate
from pnne_nb.widgets.host.displays import answer_while_busy
from pnne_nb.widgets.host.live_result import LiveResult
from pnne_nb.widgets.plots import figures
from pnne_nb.widgets.plots.curves import Floats
from pnne_nb.widgets.plots.svg_chart import PALETTE

EVERY: Final = 0.1
"""Seconds between two drawings while it measures."""


@final
class LearningRateFinder(LiveResult[LearningRateSearch]):
    """The losses of `pn.find_learning_rate` while they are measured, with a handle that sets the rate.

    The trials run in a thread of their own; the training waits meanwhile, and keeps no trace of them. In the end a handle
    lies on the curve at the suggested rate, between dashed lines for the spread over the seeds. Drag it, or type a
    rate; the button sets it by the line that is shown.

    Args:
        engine: The training.
        **options: As in `pn.find_learning_rate`.
    """

    def __init__(self, engine: TrainingEngine, **options: Any) -> None:
        super().__init__("Measuring …", ("Stop measuring", "Suggest a rate by what was measured so far"))
        self._engine: TrainingEngine | None = engine
        self._x = figures.NumberAxis("learning rate", log=True)
        self._y = figures.NumberAxis("smoothed loss", vertical=True)
        scales = {"x": self._x.scale, "y": self._y.scale}
        self._curves = figures.lines(scales, [PALETTE[0]])
        height = {"x": self._x.scale, "y": bqplot.LinearScale(min=0.0, max=1.0)}
        self._spread = figures.lines(height, ["#8a8a8a"], line_style="dashed", stroke_width=1.2)
        self._handle = bqplot.Scatter(
            x=[], y=[], scales=scales, colors=[PALETTE[1]], default_size=180, enable_move=True, restrict_x=True,
            update_on_move=True,
        )  # fmt: skip
        self._field = ipywidgets.BoundedFloatText(value=1e-3, max=1e3, step=None, description="Rate", disabled=True)
        self._set = self._button("Set this rate", "Train at it from the next step on", self._set_rate)
        self._set.disabled = True
        self._line = ipywidgets.HTML()
        self._due = 0.0
        self._mean: tuple[Floats, Floats] = np.empty(0, np.float32), np.empty(0, np.float32)
        self.children = [
            self._said,
            figures.Figure([self._curves, self._spread, self._handle], [self._x.axis, self._y.axis]),
            ipywidgets.HBox([self._field, self._set, self._stop], layout=ipywidgets.Layout(flex_flow="row wrap")),
            self._line,
        ]
        self.add_class("pnne-rate-finder")
        self._field.observe(lambda change: self._choose(change["new"]), "value")
        self._handle.observe(self._drag, "x")
        for part in (self._field, self._handle):
            answer_while_busy(part)
        self._begin(find_learning_rate, engine, **options, tell=self._tell)

    def close(self) -> None:
        """End the trials, and close all its widgets; the training continues."""
        super().close()
        self._engine = None

    def _drag(self, change: Any) -> None:
        if len(change["new"]):
            self._field.value = float(f"{change['new'][0]:.2g}")

    def _choose(self, rate: float) -> None:
        self._line.value = f"<pre>engine.set_optimizer(lr={rate:.2g})</pre>"
        with self._handle.hold_sync():
            if not len(self._handle.x) or f"{self._handle.x[0]:.2g}" != f"{rate:.2g}":  # it lies where it was dragged
                self._handle.x = [rate]
            self._handle.y = [float(np.interp(np.log(rate), *self._mean))]

    def _set_rate(self) -> None:
        if self._engine is not None:
            try:
                self._engine.set_optimizer(lr=self._field.value)
                self._say(f"The training goes on at a learning rate of {self._field.value:.2g}.")
            except PnneError as error:
                self._fail(error)

    # In the thread that measures

    def _tell(self, rates: NDArray[np.float64], losses: Sequence[Sequence[float]]) -> bool:
        if monotonic() >= self._due:
            self._draw(rates, losses)
            self._due = monotonic() + EVERY
        return not self._stopped.is_set()

    def _show(self, result: LearningRateSearch) -> None:
        self._result = result
        self._say(repr(result).partition(" Write")[0])
        mean = self._draw(result.rates, result.losses)
        self._mean = np.log(result.rates[: len(mean)]).astype(np.float32), mean
        ends = np.repeat(np.array(result.spread, np.float32)[:, None], 2, axis=1)
        figures.set_line(self._spread, ends, np.tile(np.array([0, 1], np.float32), (2, 1)))
        self._field.min, self._field.max = result.rates[0], result.rates[-1]
        self._field.disabled = self._set.disabled = False
        self._field.value = float(f"{result.suggestion:.2g}")
        self._choose(self._field.value)

    def _draw(self, rates: NDArray[np.float64], losses: Sequence[Sequence[float] | NDArray[np.float64]]) -> Floats:
        """Draw the losses of each seed, faint, and their mean; return the mean."""
        begun = [values for values in losses if len(values)]
        each = np.full((len(begun), max(map(len, begun))), np.nan, np.float32)
        for row, values in zip(each, begun, strict=True):
            row[: len(values)] = values
        mean: Floats = np.nanmean(each, axis=0)
        self._curves.colors, self._curves.opacities = [PALETTE[0]] * (len(each) + 1), [0.3] * len(each) + [1.0]
        self._x.fit(rates)
        self._y.fit(each)
        figures.set_line(self._curves, rates[: each.shape[1]].astype(np.float32), np.vstack([each, mean]))
        return mean
