"""`MonitorDashboard` and `OverlaidTrainings`: the loop of a person's own, and several trainings over each other."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, final

import ipywidgets
from IPython import get_ipython
from IPython.display import display

from pnne_nb.debugging.track import TrackedLoader
from pnne_nb.debugging.training_monitor import TrainingMonitor
from pnne_nb.errors import ArgumentError, shown
from pnne_nb.process.subscribers import weakly
from pnne_nb.protocol import control_messages
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.telemetry.frames import ALIVE, Frame, TrainingState
from pnne_nb.widgets.dashboard.engine_view import Status, past_of
from pnne_nb.widgets.dashboard.live_dashboard import LiveDashboard
from pnne_nb.widgets.host.displays import close_parts
from pnne_nb.widgets.host.static_picture import Kept, KeptPicture, Pictured, Still
from pnne_nb.widgets.plots.history_chart import history_chart
from pnne_nb.widgets.plots.layer_plots import LateNorms
from pnne_nb.widgets.plots.loss_plot import Scale

_BUTTONS: Final = ["pause", "resume", "stop"]
_EVERY: Final = 1.0
"""Seconds between two drawings of trainings that are laid over each other."""


@final
class MonitorDashboard(LiveDashboard):
    """Shows a loop that a `TrainingMonitor` watches; Pause and Stop are there once the loop asks for them.

    Args:
        monitor: Records the loop.
        loss_scale: ``"linear"`` or ``"log"``, until the button above the loss is pressed.
    """

    def __init__(self, monitor: TrainingMonitor, *, loss_scale: Scale = "linear") -> None:
        self._monitor = monitor
        super().__init__(
            monitor.history,
            monitor.channel,
            Status(state=monitor.state),
            LateNorms(),
            loss_scale=loss_scale,
            past=past_of(monitor.history),
        )
        monitor.show_histogram(None)
        removals = [monitor.on(event, weakly(self._on_event)) for event in ("state", "epoch", "anomaly")]
        shell = get_ipython()
        if shell is not None:
            ended = weakly(self._cell_ended)
            shell.events.register("post_run_cell", ended)
            removals.append(lambda: shell.events.unregister("post_run_cell", ended))
        self._follow(*removals)

    def __repr__(self) -> str:
        return f"TrainingDashboard({self._monitor!r})"

    def still(self) -> Still:
        """Return the curves of the loss and the metrics, with the last numbers and the findings."""
        title = f"Training {self._monitor.state}: {self._monitor.steps} steps"
        return history_chart(self._monitor.history, log=self._loss.log, title=title).still()

    def take(self, frames: Sequence[Frame]) -> bool:
        """Take `frames` in; returns whether no training runs."""
        if not self._offered and (layers := self._monitor.layers):
            self._offered = layers
            self._chooser.layer = self._chooser.layer or layers[0]
        return super().take(frames)

    def _cell_ended(self, _result: object) -> None:
        # A loop of the main thread is over with its cell, interrupted or not.
        if self._monitor.state in ALIVE and self._monitor.thread == threading.get_ident():
            self._monitor.close()

    def _read_status(self) -> None:
        self._status.dropped = self._monitor.channel.dropped

    def _read_bar(self) -> None:
        self._bar.offers = _BUTTONS if self._monitor.asked else []

    def _command(self, command: control_messages.Command) -> None:
        if command in _BUTTONS:
            getattr(self._monitor, command)()

    def _choose(self, name: str) -> None:
        # With a layer's activations come those of its updates.
        self._monitor.show_histogram(name.removesuffix(" (updates)"))

    def _answer_further(self, message: control_messages.ControlRequest) -> None:
        pass  # the rate and the graph belong to the loop


def display_live(monitor: TrainingMonitor) -> None:
    """Show a monitor's dashboard under the running cell; elsewhere, nothing happens."""
    shell = get_ipython()
    if shell is not None and hasattr(shell, "kernel"):
        display(MonitorDashboard(monitor))  # type: ignore[no-untyped-call]  # IPython's


@final
class OverlaidTrainings(ipywidgets.VBox, Kept, Pictured):
    """The curves of several trainings over each other, drawn again every second while one of them runs.

    Args:
        runs: Engines, monitors or histories, in any mixture.
        labels: What to call them in the legend; ``run 1``, ``run 2`` by default.
        loss_scale: ``"linear"`` or ``"log"``.

    Raises:
        ArgumentError: There is none, one is no training, or there are not as many labels.
    """

    children: Any  # ipywidgets has no types
    elsewhere: ClassVar[Mapping[str, str]] = {}

    def __init__(self, runs: Sequence[Any], *, labels: Sequence[str] = (), loss_scale: Scale = "linear") -> None:
        self._ended = threading.Event()
        self._ended.set()  # of arguments that are refused, nothing is to be closed
        if not runs:
            raise ArgumentError("The list of trainings is empty. Write pn.TrainingDashboard([first, second]).")
        self._runs = [run.monitor if isinstance(run, TrackedLoader) else run for run in runs]
        for run in self._runs:
            if not isinstance(run, TrainingEngine | TrainingMonitor | History):
                raise ArgumentError(
                    f"Each of the trainings must be an engine, a monitor or a history, not {shown(run)}."
                )
        if labels and len(labels) != len(runs):
            raise ArgumentError(f"labels must name each of the {len(runs)} trainings, not {shown(labels)}.")
        self._labels, self._log = tuple(labels), loss_scale == "log"
        self._curves = ipywidgets.HTML()
        self._kept = KeptPicture(lambda: "the trainings", self.to_html)
        super().__init__([self._curves])
        self.add_class("pnne-dashboard")
        self._ended.clear()
        weakref.finalize(self, self._ended.set)
        self._draw()
        if self._is_alive():
            threading.Thread(
                target=_follow, args=(weakref.ref(self), self._ended), name="pnne-overlay", daemon=True
            ).start()

    def __repr__(self) -> str:
        return f"TrainingDashboard({len(self._runs)} trainings)"

    def still(self) -> Still:
        """Return the curves of all trainings, with their last numbers."""
        first, *others = (run if isinstance(run, History) else run.history for run in self._runs)
        labels = self._labels or ["run 1"] * (not others)
        return history_chart(first, log=self._log, title="Trainings", beside=others, labels=labels).still()

    def close(self) -> None:
        """Stop drawing, and close the widget."""
        if not self._ended.is_set():
            self._ended.set()
            self._kept.close()
            close_parts(self)
        super().close()

    def _is_alive(self) -> bool:
        states: list[TrainingState] = [run.state for run in self._runs if not isinstance(run, History)]
        return any(state == "idle" or state in ALIVE for state in states)

    def _draw(self) -> None:
        self._curves.value = self.still().svg("auto")


def _follow(reference: Callable[[], OverlaidTrainings | None], ended: threading.Event) -> None:
    """Draw a widget again and again while it exists and one of its trainings runs."""
    alive = True
    while alive and not ended.wait(_EVERY):
        overlay = reference()
        if overlay is None:
            return
        alive = overlay._is_alive()
        overlay._draw()
        if not alive:
            overlay._kept.redraw()
        del overlay
