"""`Overlay`: shows the measurements of a training on the nodes and edges of its graph."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, final, runtime_checkable

from torch import nn

from pnne_nb.diagnosis.evidence import Evidence
from pnne_nb.diagnosis.rules import layer_faults
from pnne_nb.errors import InspectionError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.inspector.capture.function_probe import FunctionProbe
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.engine_probe import ObservableEngine
from pnne_nb.inspector.statistics.patterns import layers, leaf_layers
from pnne_nb.process.subscribers import weakly
from pnne_nb.protocol.messages import LayerState, Training
from pnne_nb.telemetry.channel import Channel
from pnne_nb.telemetry.frames import (
    ALIVE,
    ENDED,
    Frame,
    NormsFrame,
    Quantity,
    StateFrame,
    StatisticsFrame,
    StepFrame,
    TrainingState,
)
from pnne_nb.telemetry.probe import Cadence, Timed, Watch
from pnne_nb.widgets.editor.card_pictures import EXAMPLES, CardPictures
from pnne_nb.widgets.host.pump import Pacer, Pump

HZ: Final = 4.0
"""Updates a second while a browser shows them; faster numbers cannot be read."""

UNWATCHED_HZ: Final = 0.5
"""Observed steps a second without a browser."""

BUDGET: Final = 0.01
"""Share of the training's time for observing, besides a dashboard's share."""

PICTURES_BUDGET: Final = 0.03
"""Share of a core's time for drawing with pictures; asking the model is most of it, and the training waits for that."""

_WATCHED: Final[tuple[Quantity, ...]] = ("activations", "gradients")


@runtime_checkable
class OverlaidTraining(ObservableEngine, Protocol):
    """The part of `TrainingEngine` that is used here; a Protocol, so that an editor opens without importing the engine."""

    @property
    def state(self) -> TrainingState:
        """The state of the training."""

    def paused(self) -> AbstractContextManager[nn.Module]:
        """Return a block with the model to itself: training waits between two steps meanwhile."""

    def examples(self, count: int) -> Any:
        """Return the first examples of its data as one batch, or None."""


@final
class Overlay:
    """Observes a running training and publishes its state by node path.

    It is the screen of a pump, which draws the latest state at the browser's pace. Layers have hooks only in observed steps.

    Attributes:
        pictures: The latest ones, as addresses of PNGs by node path; none unless they are asked for.

    Raises:
        InspectionError: If the training's model is not the graph, or hooks cannot see its layers' calls.
    """

    def __init__(
        self, engine: OverlaidTraining, graph: NodeGraph, show: Callable[[Training], None], *, pictures: bool = False
    ) -> None:
        self.engine = engine
        self._place = place_of(engine.module, graph)
        self._graph = graph
        self._show = show
        self._evidence = Evidence.of(engine.module)
        self._modules = self._evidence.kinds
        self._step = 0
        self._cadence = Cadence(UNWATCHED_HZ, BUDGET)
        # It holds a few observations of layers and functions; older ones are useless.
        self._channel = Channel(64 * (len(self._modules) + 1))
        self._probe = _Tap(engine.module, self._channel, lambda: engine.gradient_scale)
        self.pictures: dict[str, str] = {}
        self._artist = self._first_pictures() if pictures else None
        self._pump = Pump(self._channel, self, Pacer(HZ, budget=PICTURES_BUDGET) if self._artist else Pacer(HZ))
        removals = engine.add_probe(self._probe, self._cadence), engine.on("state", weakly(self._on_state))
        self._release = weakref.finalize(self, self._pump.release, *removals)
        self._release.atexit = False
        if engine.state in ALIVE:
            self._pump.start()

    def acknowledge(self, tick: int) -> None:
        """Record that a browser has painted update `tick`."""
        self._pump.acknowledge(tick)

    def close(self) -> None:
        """Stop observing, after a drawing that is in progress."""
        self._release()
        self._pump.join(5.0)

    def _on_state(self, frame: StateFrame) -> None:
        if frame.state == "running":
            self._probe.renew()
        self._channel.put(frame)
        if frame.state in ALIVE:
            self._pump.start()

    # The pump's thread

    def take(self, frames: Sequence[Frame]) -> bool:
        """Take `frames` in; returns whether the training has ended."""
        ended = False
        for frame in frames:
            match frame:
                case StateFrame(state=state):
                    ended = state in ENDED
                    now = Evidence.of(self.engine.module)
                    # A resumed training may have other layers after an edit of its graph.
                    if ended or now.kinds != self._modules:
                        self._evidence, self._modules = now, now.kinds
                case StepFrame():
                    self._evidence.add(frame)
                case NormsFrame():
                    self._evidence.add(frame)
                    self._step = frame.step
                case StatisticsFrame() if self._know(frame.layer):
                    self._evidence.add(frame)
                    self._step = frame.step
                case _:
                    pass
        self._evidence.keep_recent()
        return ended

    def _know(self, layer: str) -> bool:
        """Return whether the layer or function node exists; adds the kind of a new function node."""
        path = f"{self._place}{layer}"
        if layer not in self._evidence.kinds and path in self._graph:
            self._evidence.kinds = {**self._evidence.kinds, layer: self._graph[path].type}
        return layer in self._evidence.kinds

    def stale(self) -> bool:
        """Return False: frames report every change."""
        return False

    def draw(self, tick: int, *, watched: bool) -> None:
        """Publish the current state."""
        self._cadence.hz = HZ if watched else UNWATCHED_HZ
        if self._artist is not None:
            try:
                self.pictures = self._artist.draw()
            except Exception:  # noqa: BLE001  # an edit can take away what the examples fit; the training says so itself
                self.pictures = {}
        self._show(Training(tick, self._step, self._layers(), self.pictures))

    def _first_pictures(self) -> CardPictures | None:
        """Make the first pictures, and return what makes the next; None, with a warning, if there are none."""
        try:
            artist = CardPictures(self.engine.paused, self.engine.examples(EXAMPLES), self._graph, self._place)
            self.pictures = artist.draw()
            why = "" if self.pictures else artist.why_none()
        except Exception as error:  # noqa: BLE001  # whatever the model raises: it is shown without pictures
            why = str(error).partition("\n")[0]
        if why:
            warnings.warn(f"No card of {self._graph.name!r} shows a picture. {why}", stacklevel=4)
        return None if why else artist

    def _layers(self) -> dict[str, LayerState]:
        norms = self._evidence.norms[-1].norms if self._evidence.norms else {}
        wrong = layer_faults(self._evidence)
        found: dict[str, LayerState] = {}
        for layer in self._evidence.kinds:
            output, back = self._latest(layer, "activations"), self._latest(layer, "gradients")
            path = f"{self._place}{layer}"
            if not (output or back or layer in norms) or path not in self._graph:
                continue
            found[self._graph[path].path] = LayerState(
                **{name: _known(output.get(name)) for name in ("mean", "std", "zeros")},
                weights=_known(norms.get(layer)),
                flow=_known(back.get("norm")),
                fault=wrong.get(layer),
            )
        return found

    def _latest(self, layer: str, quantity: Quantity) -> dict[str, float]:
        frames = self._evidence.statistics.get((layer, quantity))
        return frames[-1].values if frames else {}


def place_of(model: nn.Module, graph: NodeGraph) -> str:
    """Return the prefix of the model's node paths: ``""`` if the graph is the model, or ``"block."`` if a node of it is.

    Names decide: at least half of the model's leaf layers must be nodes there.

    Raises:
        InspectionError: If the graph does not contain the model.
    """
    names = [name for name in leaf_layers(model) if name]
    places = ["", *(f"{name}." for name, node in graph.nodes.items() if node.definition is not None)]
    # If the model is a node, the paths of its layers lack the node's name.
    drawn = {place: sum(f"{place}{name}" in graph for name in names) for place in places}
    best = max(places, key=lambda place: drawn[place])
    if not names or 2 * drawn[best] < len(names):
        listed = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
        raise InspectionError(
            f"The training is of a {type(model).__name__}, whose layers ({listed or 'it has none'}) are not the nodes of"
            f" {graph.name!r}. Open an editor of the graph that is trained; of a module, pn.from_module makes one."
        )
    return best


@final
class _Tap:
    """A probe of all layers and function nodes that sends its frames to its own channel."""

    def __init__(self, model: nn.Module, channel: Channel, gradient_scale: Callable[[], float]) -> None:
        self._model = model
        self._channel = channel
        self._gradient_scale = gradient_scale
        self._probes = self._next = self._probes_of_now()

    def renew(self) -> None:
        """Find the model's layers again in the next observed step."""
        self._next = self._probes_of_now()

    @property
    def hooked(self) -> float:
        """Processor time of the layers' hooks, in seconds; tracing functions shows only as a longer step."""
        return sum(probe.hooked for probe in self._probes if isinstance(probe, Timed))

    def open(self, step: int) -> None:
        """Attach the hooks."""
        self._probes = self._next
        for probe in self._probes:
            probe.open(step)

    def gradients_ready(self) -> None:
        """Measure gradients."""
        for probe in self._probes:
            probe.gradients_ready()

    def updated(self) -> None:
        """Do nothing: updates are not shown."""

    def close(self) -> Sequence[Frame]:
        """Detach the hooks; the engine gets no frames."""
        return self.take([frame for probe in self._probes for frame in probe.close()])

    @property
    def watch(self) -> Watch:
        """What other processes measure: layers."""
        return self._next[0].watch

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Send the frames of another process to the channel."""
        self._channel.put(*frames)
        return ()

    def _probes_of_now(self) -> tuple[LiveProbe, FunctionProbe]:
        watch = {name: _WATCHED for name in layers(self._model) if name}
        return (
            LiveProbe(self._model, watch, histograms_of=(), gradient_scale=self._gradient_scale),
            FunctionProbe(self._model, watch, self._gradient_scale),
        )


def _known(value: float | None) -> float | None:
    """Return `value` rounded for display, or None if JSON cannot express it."""
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None
