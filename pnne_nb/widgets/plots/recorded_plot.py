"""Draws the numbers that a step function records besides its loss, and those of a registered measure."""

from __future__ import annotations

from typing import final

import numpy as np

from pnne_nb.telemetry.frames import Frame, MeasureFrame, StepFrame
from pnne_nb.widgets.plots import figures
from pnne_nb.widgets.plots.curves import Curve
from pnne_nb.widgets.plots.palette import PALETTE
from pnne_nb.widgets.plots.plot import Growth, Plot


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
