"""`LiveDashboard`: what the dashboards of an engine and of a loop of one's own have in common, such as the findings."""

from __future__ import annotations

import math
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from time import monotonic
from typing import Any, Final, final

import ipywidgets
import numpy as np
import traitlets
from numpy.typing import NDArray

from pnne_nb.diagnosis.finding import Finding, curves, false_alarms, is_finding, ranked
from pnne_nb.process.fork import fork_safe
from pnne_nb.protocol import control_messages
from pnne_nb.protocol.control_messages import EvidenceBar, EvidenceCurve, Notice
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.runtime.objective.step_logs import recorded
from pnne_nb.runtime.session.rewind import REWOUND
from pnne_nb.telemetry.channel import Channel
from pnne_nb.telemetry.frames import ALIVE, AnomalyFrame, Frame, HistogramFrame, Quantity, StateFrame, StepFrame
from pnne_nb.telemetry.series import Curves
from pnne_nb.widgets.dashboard.controls import ControlBar, LayerChooser, LogSwitch
from pnne_nb.widgets.dashboard.engine_view import Status, keep_picture
from pnne_nb.widgets.host.displays import close_parts, widget_tree
from pnne_nb.widgets.host.pump import Picture, Pump
from pnne_nb.widgets.host.static_picture import Kept, KeptPicture, Pictured
from pnne_nb.widgets.plots.figures import UNMEASURED
from pnne_nb.widgets.plots.layer_plots import HistogramPlot, MetricPlots
from pnne_nb.widgets.plots.loss_plot import LossPlot, Scale
from pnne_nb.widgets.plots.plot import Plot, RecordedPlot

KEPT_EVERY: Final = 60.0
"""Seconds between two static pictures of a running training."""
MAX_OFFERED: Final = 500
"""Most histograms to choose from."""


class LiveDashboard(ipywidgets.VBox, Kept, Pictured):
    """Control bar and plots, which a pump draws from the frames of a channel.

    Args:
        history: What was and is measured.
        channel: Where frames come from; only this dashboard takes them out.
        status: What the control bar says at first.
        norms: The plot of the gradient norms.
        loss_scale: ``"linear"`` or ``"log"``, until the button above the loss is pressed.
        title: Above the loss.
        why: Below the loss.
        offered: The histograms to choose from.
        further: Plots behind the common ones.
        past: What happened before.
    """

    children: Any  # ipywidgets has no types

    def __init__(
        self,
        history: History,
        channel: Channel,
        status: Status,
        norms: Plot,
        *,
        loss_scale: Scale,
        title: str = "Loss",
        why: str = "",
        offered: Iterable[str] = (),
        further: Sequence[Plot] = (),
        past: Sequence[Frame] = (),
    ) -> None:
        self._status = status
        self._findings = Findings(history)
        self._bar = ControlBar(self._answer)
        self._offered = list(offered)
        self._chooser = LayerChooser(
            self._answer, layers=self._offered, layer=next(iter(self._offered), ""), caption=UNMEASURED
        )
        self._histogram = HistogramPlot(above=self._chooser)
        self._loss_switch = LogSwitch(self._answer_loss, log=loss_scale == "log")
        self._loss = LossPlot(loss_scale, self._loss_switch, title, why)
        self._recorded = RecordedPlot()
        metrics = MetricPlots()
        self._plots: tuple[Plot, ...] = (self._loss, metrics, norms, self._histogram, self._recorded, *further)
        self._known_steps = 0
        for name in recorded(set(history) - history.over_epochs):
            for step, value in zip(*(values.tolist() for values in history.points(name)), strict=True):
                self._recorded.remember(name, step, value)
        self.take(past)
        # The channel may have these too.
        self._known_steps = max((frame.step for frame in past if isinstance(frame, StepFrame)), default=0)
        plots = ipywidgets.Box([plot.view for plot in self._plots])
        plots.add_class("pnne-plots")
        super().__init__([self._bar, plots])
        self.add_class("pnne-dashboard")
        self._picture = Picture(self._bar)
        self._picture.include(widget_tree(self))
        self._recorded.figure.observe(self._include_new, "marks")
        for late in (metrics, norms):
            late.view.observe(self._include_new, "children")
        self._pump = Pump(channel, self)
        self._kept = KeptPicture(lambda: "the training", self.to_html)
        self._kept_at = float("-inf")
        self._writing = fork_safe(threading.Lock())  # two threads must not write to one widget

    def _follow(self, *removals: Callable[[], None]) -> None:
        """Draw what there is, and from now on what comes; `removals` are called at the end."""
        self._draw_status(0)
        for plot in self._plots:
            plot.draw()
        self._release = weakref.finalize(self, self._pump.release, *removals, self._kept.close)
        if self._status.state in ALIVE:
            self._pump.start()

    def close(self) -> None:
        """Stop drawing and close all its widgets; the training continues."""
        self._release()
        self._pump.join(5.0)
        close_parts(self)
        # A widget that was never shown has no parent that closes it.
        for widget in widget_tree(self._recorded.figure):
            widget.close()
        super().close()

    def _on_event(self, frame: Frame) -> None:
        # A button may change something while no training runs, which is drawn all the same.
        self._pump.start()
        if isinstance(frame, StateFrame):
            keep_picture(self._kept, frame)

    # The pump's thread

    def take(self, frames: Sequence[Frame]) -> bool:
        """Take `frames` in; returns whether no training runs."""
        for frame in frames:
            if isinstance(frame, StepFrame) and frame.step <= self._known_steps:
                continue
            if isinstance(frame, AnomalyFrame):
                self._findings.take(frame)
                if frame.kind == REWOUND:
                    self._known_steps = min(self._known_steps, frame.step)
            if isinstance(frame, HistogramFrame) and not self._is_chosen(frame):
                continue
            self._status.take(frame)
            for plot in self._plots:
                plot.take(frame)
        return self._status.ended

    def _is_chosen(self, frame: HistogramFrame) -> bool:
        """Return whether `frame` is of the chosen histogram; adds an inspector's histogram to the choices."""
        name = named(frame.layer, frame.quantity)
        if name not in self._offered and len(self._offered) < MAX_OFFERED:
            self._offered.append(name)
        return name == self._chooser.layer

    def stale(self) -> bool:
        """Return whether something that no frame reports must be drawn, such as another scale."""
        return self._histogram.stale or self._loss.stale

    def draw(self, tick: int, *, watched: bool) -> None:
        """Send the changes as frame number `tick`; the control bar comes last, so that its ack covers all of them."""
        if self._status.state == "running" and monotonic() >= self._kept_at + KEPT_EVERY:
            # What a lost kernel leaves in the notebook.
            self._kept_at = monotonic()
            self._kept.changed()
        # A browser that acknowledges frames can unpack a batch of updates.
        with self._picture.drawn() if watched else nullcontext():
            # Without a running training or a browser, all points are drawn.
            self._draw(tick, whole=not watched or self._status.state != "running")

    def _include_new(self, change: traitlets.Bunch) -> None:
        self._picture.include(widget_tree(change["owner"]))

    def _draw(self, tick: int, *, whole: bool) -> None:
        for plot in self._plots:
            if whole or plot.is_due():
                plot.draw()
        if len(self._offered) > len(self._chooser.layers):
            self._chooser.layers = list(self._offered)
        if self._histogram.latest is not None:
            self._chooser.caption = _caption(self._histogram.latest, self._chooser.layer)
        self._draw_status(tick)

    def _draw_status(self, tick: int) -> None:
        self._status.notices, self._status.dismissed = self._findings.shown(), self._findings.dismissed
        self._read_status()
        with self._writing, self._bar.hold_sync():
            self._bar.status = self._status.to_json()
            self._bar.tick = tick
            self._read_bar()

    @abstractmethod
    def _read_status(self) -> None:
        """Put into the status what no frame reports."""

    @abstractmethod
    def _read_bar(self) -> None:
        """Put into the control bar what the status has no place for."""

    # Messages from the browser, on any thread

    def _answer(self, message: control_messages.ControlRequest) -> None:
        match message:
            case control_messages.AckMessage(tick):
                self._pump.acknowledge(tick)
            case control_messages.CommandMessage(_, command):
                self._command(command)
            case control_messages.ChooseMessage(_, layer):
                self._choose(layer)
                self._chooser.layer = layer
            case control_messages.ScaleMessage(_, log):
                self._histogram.log = self._chooser.log = log
                if not self._pump.running:
                    self._histogram.draw()
            case control_messages.DismissMessage(_, number):
                self._findings.dismiss(number)
                self._draw_status(self._bar.tick)
            case _:
                self._answer_further(message)

    def _answer_loss(self, message: control_messages.ControlRequest) -> None:
        if isinstance(message, control_messages.ScaleMessage):
            self._loss.log = self._loss_switch.log = message.log
            if not self._pump.running:
                self._loss.draw()

    @abstractmethod
    def _command(self, command: control_messages.Command) -> None:
        """Carry out a button; it must not wait, because its thread must be free for the next click."""

    @abstractmethod
    def _choose(self, name: str) -> None:
        """Have the histogram of `name` measured from now on."""

    @abstractmethod
    def _answer_further(self, message: control_messages.ControlRequest) -> None:
        """Carry out what only some dashboards offer."""


def named(layer: str, quantity: Quantity) -> str:
    """Return the name of a layer's quantity among the choices: the path alone for activations."""
    return layer if quantity == "activations" else f"{layer} ({quantity.replace('_', ' ')})"


def _caption(frame: HistogramFrame, chosen: str) -> str:
    # The caption leaves out the step, because an unchanged caption is not sent again.
    name = named(frame.layer, frame.quantity)
    if name != chosen:
        return f"shows {name} until the next step"
    return "" if frame.sampled == frame.total else f"{frame.sampled:,} of {frame.total:,} values"


NOTICES: Final = 5
"""Most findings (the most probable) and most events (the latest) that are shown at once."""
POINTS: Final = 60
"""Most points of a curve in a finding's picture."""


@final
class Findings:
    """The findings of a training, and which of them were dismissed."""

    def __init__(self, history: Curves) -> None:
        self._history = history
        self._all: list[tuple[AnomalyFrame, Notice]] = []
        self._dismissed: set[int] = set()

    def take(self, frame: AnomalyFrame) -> None:
        """Add a finding, or an event."""
        drawn = () if frame.evidence else curves(frame.kind)
        bars = [EvidenceBar(label, value) for label, value in frame.evidence if math.isfinite(value)]
        code = frame.kind if is_finding(frame.kind) else None
        said = frame.step, frame.message, frame.node, frame.hint, code, false_alarms(frame.kind)
        self._all.append((frame, Notice(len(self._all), *said, bars, self._drawn(drawn, frame.step))))

    def dismiss(self, number: int | None) -> None:
        """Hide a finding; with None, show all of them again."""
        if number is None:
            self._dismissed.clear()
        else:
            self._dismissed.add(number)

    @property
    def dismissed(self) -> int:
        """Number of dismissed findings."""
        return len(self._dismissed)

    def shown(self) -> list[Notice]:
        """Return the findings as ``pn.diagnose`` ranks them, then the events in their order."""
        left = [(frame, notice) for frame, notice in self._all if notice.number not in self._dismissed]
        causes: dict[Finding, Notice] = {}
        for frame, notice in left:
            if is_finding(frame.kind):
                causes.setdefault(Finding.of(frame), notice)
        events = [notice for frame, notice in left if not is_finding(frame.kind)]
        return [*(causes[finding] for finding in ranked(causes)[:NOTICES]), *events[-NOTICES:]]

    def _drawn(self, names: Iterable[str], step: int) -> list[EvidenceCurve]:
        drawn = []
        for name in names:
            if name in self._history:
                steps, values = self._history.points(name)
                values = values[: int(np.searchsorted(steps, step, side="right"))]
                if len(values) > 1:
                    drawn.append(EvidenceCurve(name.replace("_", " "), _thinned(values)))
        return drawn


def _thinned(values: NDArray[np.float64]) -> list[float | None]:
    """Return at most `POINTS` means of neighbouring values; None where none is finite."""
    parts = np.array_split(values, min(POINTS, len(values)))
    means = [float(part[np.isfinite(part)].mean()) if np.isfinite(part).any() else math.inf for part in parts]
    return [mean if math.isfinite(mean) else None for mean in means]
