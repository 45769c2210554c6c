"""Draws the dashboard's plot of the loss, on a linear or a logarithmic axis."""

from __future__ import annotations

from typing import Literal, final

import bqplot
import ipywidgets
import numpy as np

from pnne_nb.runtime.monitoring.history import EDITED
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, Frame, StepFrame
from pnne_nb.widgets.plots.curves import Curve, Floats
from pnne_nb.widgets.plots.figures import (
    HEIGHT,
    TRAINING,
    VALIDATION,
    WORDS,
    Figure,
    NumberAxis,
    dotted,
    heading,
    heading_html,
    lines,
    panel,
    positive,
    set_dotted,
    set_line,
    words,
)
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
        self._x = NumberAxis("step", whole=True)
        # bqplot keeps a line on the axis that it was made for: each of the two has lines of its own.
        self._shown, other = (_Curves(self._x, log=log) for log in (self.log, not self.log))
        self._sides = {side.log: side for side in (self._shown, other)}
        other.show(False)
        self._edits: list[float] = []
        whole_height = {"x": self._x.scale, "y": bqplot.LinearScale(min=0.0, max=1.0)}
        self._edit_lines = lines(whole_height, ["#8a8a8a"], line_style="dashed", stroke_width=1.2)
        self._heading = heading(title, [TRAINING])
        marks = [*self._shown.marks, self._edit_lines, *other.marks]
        below = [words(why)] if why else []
        height = HEIGHT - WORDS * len(below)
        self.figure = Figure(marks, [self._x.axis, self._shown.y.axis, other.y.axis], height=height)
        above = self._heading if switch is None else ipywidgets.HBox([self._heading, switch])
        self.view = panel(above, self.figure, *below)

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
            self._heading.value = heading_html(self._title, [TRAINING, VALIDATION])
        self._x.fit(np.concatenate([np.zeros(1, np.float32), points[0][-1:], self._validated[0][-1:]]))
        self._shown.draw(points, self._validated, validation_changed=self._validation_changed or switched)
        self._validation_changed = False
        if self._edited:
            self._edited = False
            ends = np.repeat(np.array(self._edits, np.float32)[:, None], 2, axis=1)
            set_line(self._edit_lines, ends, np.tile(np.array([0, 1], np.float32), (len(ends), 1)))


@final
class _Curves:
    """The loss axis of one scale, with its curves."""

    def __init__(self, x: NumberAxis, *, log: bool) -> None:
        self.log = log
        self.y = NumberAxis("loss", vertical=True, log=log)
        scales = {"x": x.scale, "y": self.y.scale}
        self._training = lines(scales, [TRAINING[1]] * 2, opacities=[0.35, 1.0])
        self._validation = dotted(scales, VALIDATION[1])
        self.marks: list[bqplot.Mark] = [self._training, self._validation]

    def show(self, visible: bool) -> None:
        for part in (self.y.axis, *self.marks):
            part.visible = visible

    def draw(
        self, training: tuple[Floats, Floats, Floats], validated: tuple[Floats, Floats], *, validation_changed: bool
    ) -> None:
        """Send the curves: steps, losses and smoothed losses; steps and losses of the validation."""
        steps, *losses = training
        raw, smooth, checked = (positive(loss) if self.log else loss for loss in (*losses, validated[1]))
        if validation_changed:
            set_dotted(self._validation, validated[0], checked)
        self.y.fit(np.concatenate([raw, checked]))
        set_line(self._training, steps, np.stack([raw, smooth]))
