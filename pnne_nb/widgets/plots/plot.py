"""`Plot`: the base class of the dashboard's plots; `Growth`: when a curve is drawn again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

import ipywidgets
import numpy as np

from pnne_nb.telemetry.frames import Frame, MeasureFrame, StepFrame
from pnne_nb.widgets.plots import figures
from pnne_nb.widgets.plots.curves import Curve
from pnne_nb.widgets.plots.svg_chart import PALETTE

SEEN: Final = 1 / 200
"""Share of a curve's length by which it must grow to look different: two of four hundred pixels, a common width."""
LATEST: Final = 10
"""Updates after which a grown curve is drawn in any case: a second, if the browser keeps up."""


class Plot(ABC):
    """One plot of the dashboard; only the pump's thread uses it, except for `view`.

    Attributes:
        view: What is shown.
    """

    view: ipywidgets.Widget

    @abstractmethod
    def take(self, frame: Frame) -> None:
        """Record `frame`, if it concerns this plot."""

    def is_due(self) -> bool:
        """Return whether the changes are visible; called once for each drawing while a training runs."""
        return True

    @abstractmethod
    def draw(self) -> None:
        """Send the changes since the last drawing to the browser."""


@final
class Growth:
    """Decides when a growing curve is drawn again: when its picture would change.

    After a minute of training, each of ten pictures a second adds less than a pixel to a curve, and drawing curves is
    half of what a picture costs the training.

    Attributes:
        newest: The step at which the curve ends, at least 0; the owner of the curve sets it.
    """

    def __init__(self) -> None:
        self.newest = 0
        self._drawn = 0
        self._pictures = 0

    def is_visible(self) -> bool:
        """Return whether to draw the curve; called once for each update."""
        self._pictures += 1
        return self._pictures >= LATEST or abs(self.newest - self._drawn) >= SEEN * self.newest

    def drawn(self) -> None:
        """Record that the curve was drawn."""
        self._drawn = self.newest
        self._pictures = 0


@final
class RecordedPlot(Plot):
    """One line per recorded number over the steps, for the first few; hidden until there is one.

    Args:
        measure: The title of the measure that it draws; None for what a step function records.
    """

    def __init__(self, measure: str | None = None) -> None:
        self._measure = measure
        self._title = measure or "Recorded"
        self._curves: dict[str, Curve] = {}
        self._growth = Growth()
        self._x = figures.NumberAxis("step", whole=True)
        self._y = figures.NumberAxis("recorded" if measure is None else "", vertical=True)
        self._heading = figures.heading(self._title)
        self.figure = figures.Figure([], [self._x.axis, self._y.axis])
        self.view = figures.panel(self._heading)
        self.view.layout.display = "none"
        self._changed = False

    def take(self, frame: Frame) -> None:
        """Record the numbers of one step."""
        numbers: dict[str, float] | None = None
        if isinstance(frame, StepFrame) and self._measure is None:
            numbers = frame.logged
        elif isinstance(frame, MeasureFrame) and frame.title == self._measure:
            numbers = frame.values
        for name, value in (numbers or {}).items():
            self.remember(name, frame.step, value)  # type: ignore[union-attr]  # both have one

    def remember(self, name: str, step: int, value: float) -> None:
        """Record one number."""
        if name in self._curves or len(self._curves) < len(PALETTE):
            self._curves.setdefault(name, Curve()).append(step, value)
            self._growth.newest = max(self._growth.newest, step)
            self._changed = True

    def is_due(self) -> bool:
        """Return whether the lines have grown visibly."""
        return self._growth.is_visible()

    def draw(self) -> None:
        """Send the changed curves."""
        if not self._changed:
            return
        self._changed = False
        self._growth.drawn()
        points = [curve.points()[:2] for curve in self._curves.values()]
        self._x.fit(np.concatenate([np.zeros(1, np.float32), *(x[-1:] for x, _ in points)]))
        self._y.fit(np.concatenate([y for _, y in points]))
        if len(self.figure.marks) < len(points):
            self._add_lines(len(points))
        for line, (x, y) in zip(self.figure.marks, points, strict=True):
            figures.set_line(line, x, y)

    def _add_lines(self, count: int) -> None:
        scales = {"x": self._x.scale, "y": self._y.scale}
        there = list(self.figure.marks)
        self.figure.marks = there + [figures.lines(scales, [colour]) for colour in PALETTE[len(there) : count]]
        self._heading.value = figures.heading_html(self._title, zip(self._curves, PALETTE, strict=False))
        # A figure that is made out of sight does not know its size.
        self.view.children = (self._heading, self.figure)
        self.view.layout.display = None
