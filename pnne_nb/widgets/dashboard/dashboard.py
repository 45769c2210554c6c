"""`TrainingDashboard`: plots of a running training, the buttons that control it, and what to do when it is over."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any, ClassVar, Final, assert_never, final

import ipywidgets

from pnne_nb.debugging.track import TrackedLoader
from pnne_nb.debugging.training_monitor import TrainingMonitor
from pnne_nb.errors import TrainingError, expect
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.statistics.patterns import own_parameters
from pnne_nb.process.subscribers import weakly
from pnne_nb.protocol import control_messages
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.monitoring.probes import measuring
from pnne_nb.runtime.session.next_steps import NextSteps, Step
from pnne_nb.runtime.session.waiting import Started
from pnne_nb.telemetry.frames import AnomalyFrame, TrainingState
from pnne_nb.telemetry.probe import Cadence, Probe
from pnne_nb.widgets.dashboard.engine_view import (
    WATCHED,
    Status,
    editors_of,
    layer_probe,
    past_frames,
    remedies,
    trained_graph,
    training_still,
)
from pnne_nb.widgets.dashboard.live_dashboard import LiveDashboard, named
from pnne_nb.widgets.dashboard.monitor_dashboard import MonitorDashboard, OverlaidTrainings
from pnne_nb.widgets.editor.editor import GraphEditor
from pnne_nb.widgets.host.displays import close_parts, widget_tree
from pnne_nb.widgets.host.pump import IN_FLIGHT
from pnne_nb.widgets.host.static_picture import SHOWN, Still
from pnne_nb.widgets.plots.layer_plots import NormPlot
from pnne_nb.widgets.plots.loss_plot import Scale
from pnne_nb.widgets.plots.plot import RecordedPlot
from pnne_nb.widgets.plots.resource_plots import MemoryPlot, TimePlot

WATCHED_HZ: Final = 10.0
"""Observed steps a second while a browser shows them."""
UNWATCHED_HZ: Final = 1.0
"""Observed steps a second without a browser, so that a page that opens later is up to date."""
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
class TrainingDashboard(LiveDashboard):
    """Loss, metrics, gradient norms, activations, memory, time, progress, and buttons that respond while cells run.

    Each engine has one dashboard: another call with the same engine returns it. Several cells may show it, before, during
    and after the training. It closes by itself when these cells were run again and show another one.

    A `TrainingMonitor` or `pn.track` is shown in the same way, with what a loop of one's own can do for buttons. Several
    trainings in a list, engines, monitors or histories, are laid over each other.

    Args:
        engine: The training to show, or the monitor of a loop, or several of them.
        loss_scale: ``"linear"`` or ``"log"``, until the button above the loss is pressed.
    """

    elsewhere: ClassVar[Mapping[str, str]] = {**SHOWN, **_OF_THE_ENGINE}
    _open: ClassVar[weakref.WeakValueDictionary[int, TrainingDashboard]] = weakref.WeakValueDictionary()

    def __new__(cls, engine: Any, **options: Any) -> Any:
        """Return the open dashboard of `engine`, or a new one; of a monitor or of several trainings, a dashboard of their own.

        Raises:
            ArgumentError: `engine` is not a training.
        """
        existing = cls._open.get(id(engine))
        if existing is not None:
            return existing
        if isinstance(engine, TrainingMonitor | TrackedLoader):
            return MonitorDashboard(engine.monitor if isinstance(engine, TrackedLoader) else engine, **options)
        if isinstance(engine, list | tuple):
            return OverlaidTrainings(engine, **options)
        expect(
            engine,
            TrainingEngine,
            "engine",
            "a TrainingEngine, a TrainingMonitor, or a list of them",
            "Write pn.TrainingDashboard(engine) of engine = pn.TrainingEngine(model, data).",
        )
        return super().__new__(cls)

    def __init__(self, engine: TrainingEngine, *, loss_scale: Scale = "linear") -> None:
        if self._open.get(id(engine)) is self:
            return
        self._engine: TrainingEngine | None = engine
        layers = list(dict.fromkeys(layer for layer, _, parameter in own_parameters(engine.module)))
        probe = layer_probe(engine)
        self._probe: LiveProbe | None = probe
        # Watched until a browser could have answered, so that the first second has more than a single point.
        self._cadence = Cadence(WATCHED_HZ, BUDGET)
        # The quantities that the dashboard's own probe can measure, by the names of the choices.
        self._own = {
            named(layer, what): layer for what in WATCHED for layer, found in probe.watched.items() if what in found
        }
        self._exporter: GraphEditor | None = None
        loss, measures = engine.loss_choice, measuring(engine.module)
        super().__init__(
            engine.history,
            engine.channel,
            Status(state=engine.state, learning_rate=engine.optimizer.param_groups[0]["lr"]),
            NormPlot(layers),
            loss_scale=loss_scale,
            title=f"Loss: {loss.name}",
            why=f"{loss.name} was chosen: {loss.reason}." if loss.reason else "",
            offered=self._own,
            further=(*map(RecordedPlot, measures), MemoryPlot(), TimePlot()),
            past=past_frames(engine),
        )
        self._next = NextStepsPanel(engine)
        self.children = (*self.children, self._next)
        probes: list[Probe] = [probe, *measures.values()]
        remove_probes = [engine.add_probe(each, self._cadence) for each in probes]
        events = ("state", "epoch", "anomaly", "checkpoint")
        removals = [engine.on(event, weakly(self._on_event), waits=False) for event in events]
        self._follow(*remove_probes, *removals)
        self._open[id(engine)] = self

    def __repr__(self) -> str:
        return "TrainingDashboard()"

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
        self._next.close()
        super().close()

    def stale(self) -> bool:
        """Return whether something that no frame reports must be drawn: a waiting cell, an edited graph, another scale."""
        engine, status = self._engine, self._status
        if engine is not None and (engine.waiting_for, engine.edited) != (status.waiting, status.edited):
            return True
        return super().stale()

    def draw(self, tick: int, *, watched: bool) -> None:
        """Send the changes as frame number `tick`; the control bar comes last, so that its ack covers all of them."""
        self._cadence.hz = WATCHED_HZ if watched or tick <= IN_FLIGHT else UNWATCHED_HZ
        super().draw(tick, watched=watched)

    def _read_status(self) -> None:
        if self._engine is not None:
            self._status.waiting, self._status.edited = self._engine.waiting_for, self._engine.edited
            self._status.dropped = self._engine.channel.dropped
            self._status.remedies = remedies(self._engine)
            if not self._status.remedies:
                self._status.batch_text = ""
            self._status.skipped_steps = self._engine.history.skipped_steps

    def _read_bar(self) -> None:
        self._next.follow(self._status.state)
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
        if on and self._exporter is None:
            self._exporter = GraphEditor(trained_graph(engine), height=_EXPORT_HEIGHT)
            self._exporter.panel = "export"
            self._exporter.training = engine
        elif not on and self._exporter is not None:
            self._exporter.close()
            self._exporter = None
        shown = () if self._exporter is None else (self._exporter,)
        self.children = (self._bar, *shown, *self.children[-2:])
        with self._writing:
            self._bar.exporting = self._exporter is not None

    def _is_on_graph(self) -> bool:
        return self._engine is not None and any(editor.training is self._engine for editor in self._other_editors())

    def _other_editors(self) -> list[GraphEditor]:
        """Return the editors of the trained graph, without the one of the export dialog."""
        return [editor for editor in GraphEditor.opened() if editor is not self._exporter]

    # Messages from the browser, on any thread

    def _answer_further(self, message: control_messages.ControlRequest) -> None:
        match message:
            case control_messages.RateMessage(_, rate):
                self._apart(lambda: self._set_rate(rate))
            case control_messages.ShowMessage(_, on):
                self.show_on_graph(on)
            case control_messages.ExportMessage(_, on):
                self.show_export(on)
            case _:
                raise AssertionError(message)

    def _command(self, command: control_messages.Command) -> None:
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


@final
class NextStepsPanel(ipywidgets.VBox):
    """A button for each line of `engine.next_steps()` that needs nothing but the engine; its line and its result stand below.

    The lines that need more, such as other data, stand in the list of all lines.

    A button runs the line that it shows, so that what it does can be typed, and changed, in a cell.
    """

    children: Any  # ipywidgets has no types

    def __init__(self, engine: TrainingEngine) -> None:
        self._engine: TrainingEngine | None = engine
        self._state: TrainingState | None = None
        self._rows, self._line, self._result = ipywidgets.VBox(), ipywidgets.HTML(), ipywidgets.VBox()
        self._all = ipywidgets.HTML()
        parts = [self._rows, self._line, self._result, self._all]
        super().__init__(parts, layout=ipywidgets.Layout(display="none"))
        self.add_class("pnne-next-steps")

    def close(self) -> None:
        """Close it with what it shows; the engine stays."""
        self._engine = None
        self._show(())
        close_parts(self)
        super().close()

    def follow(self, state: TrainingState) -> None:
        """Be there while nothing trains, and go when it goes on."""
        if state == self._state:
            return
        self._state = state
        self.layout.display = "none" if state == "running" else None
        if state != "running":
            _close(self._rows.children)
            ways = NextSteps(state)
            narrow, wrapped = ipywidgets.Layout(width="64px"), ipywidgets.Layout(flex_flow="row wrap")
            self._all.value = f"<details><summary>All lines, to type</summary><pre>{escape(repr(ways))}</pre></details>"
            self._rows.children = [
                ipywidgets.HBox([ipywidgets.HTML(f"<b>{purpose}</b>", layout=narrow), *buttons], layout=wrapped)
                for purpose, steps in ways.steps.items()
                if (buttons := [self._button(step) for step in steps if step.button])
            ]

    def _button(self, step: Step) -> ipywidgets.Button:
        made = ipywidgets.Button(
            description=step.button, tooltip=f"{step.about}: {step.line}", layout=ipywidgets.Layout(width="auto")
        )
        made.on_click(lambda _: self.run(step))
        return made

    def run(self, step: Step) -> None:
        """Run the line of a step, and show it with its result, or with why it is refused."""
        if self._engine is None:
            return
        self._line.value = f"<pre>{escape(str(step))}</pre>"
        self._show(())
        try:
            value = eval(step.line, {"pn": sys.modules["pnne_nb"], "engine": self._engine})  # noqa: S307  # a line of our own table
        except Exception as error:  # noqa: BLE001  # whatever the line raises is its answer, as in a cell
            value = f"{type(error).__name__}: {error}"
        self._show(() if value is None or isinstance(value, Started) else (_shown(value),))

    def _show(self, widgets: tuple[ipywidgets.Widget, ...]) -> None:
        before, self._result.children = self._result.children, widgets
        _close(before)


def _close(widgets: Iterable[ipywidgets.Widget]) -> None:
    for widget in widgets:
        parts = widget_tree(widget)
        widget.close()  # first as it closes itself: it may have a thread
        for part in parts:
            part.close()


def _shown(value: Any) -> ipywidgets.Widget:
    if isinstance(value, ipywidgets.Widget):
        return value
    html = getattr(value, "_repr_html_", None)
    return ipywidgets.HTML(
        html() if html is not None else f"<pre style='white-space:pre-wrap'>{escape(str(value))}</pre>"
    )
