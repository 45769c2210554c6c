"""Draws the dashboard's plot of the loss, on a linear or a logarithmic axis."""

from __future__ import annotations

from typing import Literal, final

import bqplot
import ipywidgets
import numpy as np

from pnne_nb.runtime.monitoring.history import EDITED
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, Frame, StepFrame
from pnne_nb.widgets.plots import figures
from pnne_nb.widgets.plots.curves import Curve, Floats
from pnne_nb.widgets.plots.plot import Growth, Plot

Scale = Literal["linear", "log"]


@final
class LossPlot(Plot):
    """Training loss of every step, smoothed, and validation loss of every epoch; dashed lines mark edits of the graph.

    Args:
        scale: Of the loss axis at first.
        switch: What stands behind the heading, for changing the scale.
        title: What the heading says.
        why: Words below the figure.

    Attributes:
        log: Whether the loss axis is logarithmic; may be set from any thread, for the next drawing.
    """

    def __init__(
        self, scale: Scale = "linear", switch: ipywidgets.Widget | None = None, title: str = "Loss", why: str = ""
    ) -> None:
        self._title = title
        self.log = scale == "log"
        self._training, self._validation = Curve(), Curve()
        self._validated: tuple[Floats, Floats] = self._validation.points()[:2]
        self._growth = Growth()
        self._changed = self._validation_changed = self._edited = False
        self._x = figures.NumberAxis("step", whole=True)
        # bqplot keeps a line on the axis that it was made for: each of the two has lines of its own.
        self._shown, other = (_Curves(self._x, log=log) for log in (self.log, not self.log))
        self._sides = {side.log: side for side in (self._shown, other)}
        other.show(False)
        self._edits: list[float] = []
        whole_height = {"x": self._x.scale, "y": bqplot.LinearScale(min=0.0, max=1.0)}
        self._edit_lines = figures.lines(whole_height, ["#8a8a8a"], line_style="dashed", stroke_width=1.2)
        self._heading = figures.heading(title, [figures.TRAINING])
        marks = [*self._shown.marks, self._edit_lines, *other.marks]
        below = [figures.words(why)] if why else []
        height = figures.HEIGHT - figures.WORDS * len(below)
        self.figure = figures.Figure(marks, [self._x.axis, self._shown.y.axis, other.y.axis], height=height)
        above = self._heading if switch is None else ipywidgets.HBox([self._heading, switch])
        self.view = figures.panel(above, self.figure, *below)

    def take(self, frame: Frame) -> None:
        """Remember a step's training loss or an epoch's validation loss."""
        match frame:
            case StepFrame():
                self._training.append(frame.step, frame.loss)
                self._growth.newest = frame.step
                self._changed = True
            case EpochFrame() if "val_loss" in frame.metrics:
                self._validation.append(frame.step, frame.metrics["val_loss"])
                self._changed = self._validation_changed = True
            case AnomalyFrame(kind=kind) if kind == EDITED:
                self._training.cut()
                self._edits.append(frame.step + 0.5)
                self._changed = self._edited = True
            case _:
                pass

    @property
    def stale(self) -> bool:
        """Whether the chosen scale differs from the drawn one."""
        return self.log != self._shown.log

    def is_due(self) -> bool:
        """Return whether the training curve has grown visibly, or another line or the scale has changed."""
        return self._growth.is_visible() or self._validation_changed or self._edited or self.stale

    def draw(self) -> None:
        """Send the changed curves."""
        switched = self.stale
        if switched:
            self._shown.show(False)
            self._shown = self._sides[self.log]
            self._shown.show(True)
        if not (self._changed or switched):
            return
        self._changed = False
        self._growth.drawn()
        points = self._training.points()
        if self._validation_changed:
            self._validated = self._validation.points()[:2]
            self._heading.value = figures.heading_html(self._title, [figures.TRAINING, figures.VALIDATION])
        self._x.fit(np.concatenate([np.zeros(1, np.float32), points[0][-1:], self._validated[0][-1:]]))
        self._shown.draw(points, self._validated, validation_changed=self._validation_changed or switched)
        self._validation_changed = False
        if self._edited:
            self._edited = False
            ends = np.repeat(np.array(self._edits, np.float32)[:, None], 2, axis=1)
            figures.set_line(self._edit_lines, ends, np.tile(np.array([0, 1], np.float32), (len(ends), 1)))


@final
class _Curves:
    """The loss axis of one scale, with its curves."""

    def __init__(self, x: figures.NumberAxis, *, log: bool) -> None:
        self.log = log
        self.y = figures.NumberAxis("loss", vertical=True, log=log)
        scales = {"x": x.scale, "y": self.y.scale}
        self._training = figures.lines(scales, [figures.TRAINING[1]] * 2, opacities=[0.35, 1.0])
        self._validation = figures.dotted(scales, figures.VALIDATION[1])
        self.marks: list[bqplot.Mark] = [self._training, self._validation]

    def show(self, visible: bool) -> None:
        for part in (self.y.axis, *self.marks):
            part.visible = visible

    def draw(
        self, training: tuple[Floats, Floats, Floats], validated: tuple[Floats, Floats], *, validation_changed: bool
    ) -> None:
        """Send the curves: steps, losses and smoothed losses; steps and losses of the validation."""
        steps, *losses = training
        raw, smooth, checked = (figures.positive(loss) if self.log else loss for loss in (*losses, validated[1]))
        if validation_changed:
            figures.set_dotted(self._validation, validated[0], checked)
        self.y.fit(np.concatenate([raw, checked]))
        figures.set_line(self._training, steps, np.stack([raw, smooth]))
