"""`TrainingDashboard`: plots of a running training, and the buttons that control it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from time import monotonic
from typing import Any, ClassVar, Final, assert_never, final

import ipywidgets
import traitlets

from pnne_nb.errors import TrainingError, expect
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.statistics.patterns import own_parameters
from pnne_nb.process.fork import fork_safe
from pnne_nb.process.subscribers import weakly
from pnne_nb.protocol import control_messages
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.objective.step_logs import recorded
from pnne_nb.runtime.session.rewind import REWOUND
from pnne_nb.telemetry.frames import (
    ALIVE,
    AnomalyFrame,
    Frame,
    HistogramFrame,
    Quantity,
    StateFrame,
    StepFrame,
)
from pnne_nb.telemetry.probe import Cadence
from pnne_nb.widgets.dashboard.controls import ControlBar, LayerChooser, LogSwitch
from pnne_nb.widgets.dashboard.engine_view import (
    WATCHED,
    editors_of,
    keep_picture,
    layer_probe,
    past_frames,
    remedies,
    trained_graph,
    training_still,
)
from pnne_nb.widgets.dashboard.findings import Findings
from pnne_nb.widgets.dashboard.status import Status
from pnne_nb.widgets.editor.editor import GraphEditor
from pnne_nb.widgets.host.batched_updates import Picture
from pnne_nb.widgets.host.displays import close_parts, widget_tree
from pnne_nb.widgets.host.frame_pacer import IN_FLIGHT
from pnne_nb.widgets.host.pump import Pump
from pnne_nb.widgets.host.static_picture import SHOWN, KeptPicture, Pictured, Still
from pnne_nb.widgets.plots.figures import UNMEASURED
from pnne_nb.widgets.plots.layer_plots import HistogramPlot, MetricPlots, NormPlot
from pnne_nb.widgets.plots.loss_plot import LossPlot, Scale
from pnne_nb.widgets.plots.plot import Plot
from pnne_nb.widgets.plots.recorded_plot import RecordedPlot
from pnne_nb.widgets.plots.resource_plots import MemoryPlot, TimePlot

WATCHED_HZ: Final = 10.0
"""Observed steps a second while a browser shows them."""
UNWATCHED_HZ: Final = 1.0
"""Observed steps a second without a browser, so that a page that opens later is up to date."""
KEPT_EVERY: Final = 60.0
"""Seconds between two static pictures of a running training."""
MAX_OFFERED: Final = 500
"""Most histograms to choose from."""
BACK: Final = 20
"""Steps that the button "Go back" takes back."""
_EXPORT_HEIGHT: Final = 560
"""Height in pixels of the graph with the export dialog."""
BUDGET: Final = 0.008
"""Share of the training's time for observing layers: eight observations a second if each takes 1 ms."""


_OF_THE_ENGINE: Final = {
    **{name: f"engine.{name}" for name in ("history", "model", "state")},
    **{name: f"engine.{name}()" for name in ("pause", "resume", "start", "step", "stop", "wait")},
}


@final
class TrainingDashboard(ipywidgets.VBox, Pictured):
    """Loss, metrics, gradient norms, activations, memory, time, progress, and buttons that respond while cells run.

    Each engine has one dashboard: another call with the same engine returns it. Several cells may show it, before, during
    and after the training. It closes by itself when these cells were run again and show another one.

    Args:
        engine: The training to show.
        loss_scale: ``"linear"`` or ``"log"``, until the button above the loss is pressed.
    """

    instead = "Train with engine.start() and engine.wait(), and run this cell again."
    elsewhere: ClassVar[Mapping[str, str]] = {**SHOWN, **_OF_THE_ENGINE}
    children: Any  # ipywidgets has no types
    _open: ClassVar[weakref.WeakValueDictionary[int, TrainingDashboard]] = weakref.WeakValueDictionary()

    def __new__(cls, engine: TrainingEngine, **_options: Any) -> TrainingDashboard:
        """Return the open dashboard of `engine`, or a new one.

        Raises:
            ArgumentError: `engine` is not a training.
        """
        expect(
            engine,
            TrainingEngine,
            "engine",
            "a TrainingEngine",
            "Write pn.TrainingDashboard(engine) of engine = pn.TrainingEngine(model, data).",
        )
        existing = cls._open.get(id(engine))
        return existing if existing is not None else super().__new__(cls)

    def __init__(self, engine: TrainingEngine, *, loss_scale: Scale = "linear") -> None:
        if self._open.get(id(engine)) is self:
            return
        self._engine: TrainingEngine | None = engine
        layers = list(dict.fromkeys(layer for layer, _, parameter in own_parameters(engine.module)))
        probe = layer_probe(engine)
        self._probe: LiveProbe | None = probe
        # Watched until a browser could have answered, so that the first second has more than a single point.
        self._cadence = Cadence(WATCHED_HZ, BUDGET)
        self._status = Status(state=engine.state, learning_rate=engine.optimizer.param_groups[0]["lr"])
        self._findings = Findings(engine.history)
        self._bar = ControlBar(self._answer)
        # The quantities that the dashboard's own probe can measure, by the names of the choices.
        self._own = {
            _named(layer, what): layer for what in WATCHED for layer, found in probe.watched.items() if what in found
        }
        self._offered = list(self._own)
        self._chooser = LayerChooser(
            self._answer, layers=self._offered, layer=next(iter(self._own), ""), caption=UNMEASURED
        )
        self._histogram = HistogramPlot(above=self._chooser)
        self._loss_switch = LogSwitch(self._answer_loss, log=loss_scale == "log")
        loss = engine.loss_choice
        why = f"{loss.name} was chosen: {loss.reason}." if loss.reason else ""
        self._loss = LossPlot(loss_scale, self._loss_switch, f"Loss: {loss.name}", why)
        self._recorded = RecordedPlot()
        metrics = MetricPlots()
        self._exporter: GraphEditor | None = None
        self._plots: tuple[Plot, ...] = (
            self._loss,
            metrics,
            NormPlot(layers),
            self._histogram,
            self._recorded,
            MemoryPlot(),
            TimePlot(),
        )
        self._known_steps = 0
        past = past_frames(engine)
        for name in recorded(engine.history):
            for step, value in zip(*(values.tolist() for values in engine.history.points(name)), strict=True):
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
        metrics.view.observe(self._include_new, "children")
        self._pump = Pump(engine.channel, self)
        self._kept = KeptPicture(lambda: "the training", self.to_html)
        self._kept_at = float("-inf")
        self._writing = fork_safe(threading.Lock())  # two threads must not write to one widget
        self._draw_status(0)
        for plot in self._plots:
            plot.draw()
        remove_probe = engine.add_probe(probe, self._cadence)
        events = ("state", "epoch", "anomaly", "checkpoint")
        removals = [engine.on(event, weakly(self._on_event), waits=False) for event in events]
        self._release = weakref.finalize(self, self._pump.release, remove_probe, *removals, self._kept.close)
        self._open[id(engine)] = self
        if engine.state in ALIVE:
            self._pump.start()

    def __repr__(self) -> str:
        return "TrainingDashboard()"

    def _ipython_display_(self, **_: object) -> None:
        self._kept.show_under(self)

    def still(self) -> Still:
        """Return the curves of the loss and the metrics, with the last numbers and the findings.

        Raises:
            RuntimeError: The dashboard was closed.
        """
        return training_still(self.engine, log=self._loss.log)

    @property
    def engine(self) -> TrainingEngine:
        """The training that is shown.

        Raises:
            RuntimeError: The dashboard was closed.
        """
        if self._engine is None:
            raise RuntimeError("The dashboard was closed. TrainingDashboard(engine) makes another one.")
        return self._engine

    def close(self) -> None:
        """Stop drawing and close all its widgets; the training continues."""
        if self._engine is None:
            return
        self._open.pop(id(self._engine), None)
        # IPython's Out may hold the closed dashboard, which must not keep the model alive.
        self._engine = self._probe = None
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
        name = _named(frame.layer, frame.quantity)
        if name not in self._offered and len(self._offered) < MAX_OFFERED:
            self._offered.append(name)
        return name == self._chooser.layer

    def stale(self) -> bool:
        """Return whether something that no frame reports must be drawn: a waiting cell, an edited graph, another scale."""
        engine, status = self._engine, self._status
        if engine is not None and (engine.waiting_for, engine.edited) != (status.waiting, status.edited):
            return True
        return self._histogram.stale or self._loss.stale

    def draw(self, tick: int, *, watched: bool) -> None:
        """Send the changes as frame number `tick`; the control bar comes last, so that its ack covers all of them."""
        self._cadence.hz = WATCHED_HZ if watched or tick <= IN_FLIGHT else UNWATCHED_HZ
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
        if self._engine is not None:
            self._status.waiting, self._status.edited = self._engine.waiting_for, self._engine.edited
            self._status.dropped = self._engine.channel.dropped
            self._status.remedies = remedies(self._engine)
            if not self._status.remedies:
                self._status.batch_text = ""
            self._status.notices, self._status.dismissed = self._findings.shown(), self._findings.dismissed
            self._status.skipped_steps = self._engine.history.skipped_steps
        with self._writing, self._bar.hold_sync():
            self._bar.status = self._status.to_json()
            self._bar.tick = tick
            self._bar.shown = self._is_on_graph()
            self._bar.direct = "" if self._engine is None else self._engine.direct_buttons

    def show_on_graph(self, on: bool = True) -> None:
        """Show the running training on the nodes and edges of every open editor of its graph.

        Args:
            on: Whether to show it; `GraphEditor.training` does so for one editor.

        Raises:
            InspectionError: No open editor shows the graph that is trained, or its layers cannot be observed.
        """
        engine = self.engine
        editors = self._other_editors()
        if not on:
            for editor in editors:
                if editor.training is engine:
                    editor.training = None
        else:
            for editor in editors_of(engine, editors):
                editor.training = engine
        with self._writing:
            self._bar.shown = self._is_on_graph()

    def show_export(self, on: bool = True) -> None:
        """Show the export dialog of the trained model under the buttons, beside its graph.

        Args:
            on: Whether to show it.

        Raises:
            InspectionError: The model was not compiled from a graph.
        """
        engine = self.engine
        box: ipywidgets.VBox = self
        bar, plots = box.children[0], box.children[-1]
        if on and self._exporter is None:
            self._exporter = GraphEditor(trained_graph(engine), height=_EXPORT_HEIGHT)
            self._exporter.panel = "export"
            self._exporter.training = engine
        elif not on and self._exporter is not None:
            self._exporter.close()
            self._exporter = None
        box.children = (bar, plots) if self._exporter is None else (bar, self._exporter, plots)
        with self._writing:
            self._bar.exporting = self._exporter is not None

    def _is_on_graph(self) -> bool:
        return self._engine is not None and any(editor.training is self._engine for editor in self._other_editors())

    def _other_editors(self) -> list[GraphEditor]:
        """Return the editors of the trained graph, without the one of the export dialog."""
        return [editor for editor in GraphEditor.opened() if editor is not self._exporter]

    # Messages from the browser, on any thread

    def _answer(self, message: control_messages.ControlRequest) -> None:
        match message:
            case control_messages.AckMessage(tick):
                self._pump.acknowledge(tick)
            case control_messages.CommandMessage(_, command):
                self._command(command)
            case control_messages.ChooseMessage(_, layer):
                self._choose(layer)
            case control_messages.ScaleMessage(_, log):
                self._histogram.log = self._chooser.log = log
                if not self._pump.running:
                    self._histogram.draw()
            case control_messages.RateMessage(_, rate):
                self._apart(lambda: self._set_rate(rate))
            case control_messages.ShowMessage(_, on):
                self.show_on_graph(on)
            case control_messages.ExportMessage(_, on):
                self.show_export(on)
            case control_messages.DismissMessage(_, number):
                self._findings.dismiss(number)
                self._draw_status(self._bar.tick)
            case _:
                assert_never(message)

    def _answer_loss(self, message: control_messages.ControlRequest) -> None:
        if isinstance(message, control_messages.ScaleMessage):
            self._loss.log = self._loss_switch.log = message.log
            if not self._pump.running:
                self._loss.draw()

    def _command(self, command: control_messages.Command) -> None:
        # It must not wait: the button's thread must be free for the next click.
        match command:
            case "start":
                self.engine.start(process=self.engine.in_process)
            case "pause" | "step" | "stop" | "validate":
                getattr(self.engine, command)(wait=False)
            case "resume":
                self.engine.resume()
            case "save":
                self.engine.save_checkpoint(wait=False)
            case "rewind":
                self._apart(lambda: self.engine.rewind(min(BACK, self.engine.progress.step)))
            case "batch":
                fault = self.engine.fault
                self._status.batch_text = "" if fault is None or self._status.batch_text else fault.show_batch()
                self._draw_status(self._bar.tick)
            case "skip":
                self.engine.skip_batch()
                self.engine.start()
            case _:
                assert_never(command)

    def _apart(self, work: Callable[[], object]) -> None:
        """Carry out in a thread what waits for the end of the running step; a refusal is shown among the findings."""

        def run() -> None:
            try:
                work()
            except TrainingError as error:
                self._findings.take(AnomalyFrame(self._status.step, "request-failed", str(error)))
            self._draw_status(self._bar.tick)

        threading.Thread(target=run, name="pnne-button", daemon=True).start()

    def _set_rate(self, rate: float) -> None:
        self.engine.set_optimizer(lr=rate)
        self._status.learning_rate = rate

    def _choose(self, name: str) -> None:
        if self._probe is None:
            return
        if name in self._offered and name not in self._own:
            # An inspector sends it anyway.
            self._probe.histograms_of = ()
        else:
            self._probe.histograms_of = (self._own.get(name, name),)
        self._chooser.layer = name


def _named(layer: str, quantity: Quantity) -> str:
    """Return the name of a layer's quantity among the choices: the path alone for activations."""
    return layer if quantity == "activations" else f"{layer} ({quantity.replace('_', ' ')})"


def _caption(frame: HistogramFrame, chosen: str) -> str:
    # The caption leaves out the step, because an unchanged caption is not sent again.
    name = _named(frame.layer, frame.quantity)
    if name != chosen:
        return f"shows {name} until the next step"
    return "" if frame.sampled == frame.total else f"{frame.sampled:,} of {frame.total:,} values"
