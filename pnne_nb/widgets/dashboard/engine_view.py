"""Reads the contents of a dashboard from an engine: its state, static picture and graph, and the remedies after a failure."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Final, final

import msgspec

from pnne_nb.compiler.module.pickled_model import graph_of
from pnne_nb.errors import InspectionError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.statistics.patterns import leaf_layers
from pnne_nb.protocol.control_messages import Command, Saved, TrainingStatus
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.faults.error_messages import in_brief
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.telemetry.frames import (
    ALIVE,
    AnomalyFrame,
    CheckpointFrame,
    CostFrame,
    Frame,
    MemoryFrame,
    ProgressFrame,
    Quantity,
    StateFrame,
    StepFrame,
)
from pnne_nb.widgets.editor.editor import GraphEditor
from pnne_nb.widgets.editor.training_overlay import place_of
from pnne_nb.widgets.host.static_picture import KeptPicture, Still
from pnne_nb.widgets.plots.history_chart import history_chart

WATCHED: Final[tuple[Quantity, ...]] = ("activations", "gradients", "parameters")
"""Quantities of a layer with parameters; other layers have only the first two."""

logger = logging.getLogger(__name__)


def training_still(engine: TrainingEngine, *, log: bool) -> Still:
    """Return the picture of a training: curves of the loss and the metrics, last numbers, findings."""
    progress = engine.progress
    said = [f"Loss: {engine.loss_choice}."]
    if engine.error is not None:
        said.append(in_brief(engine.error))
    if engine.checkpoint_dir is not None and engine.state != "finished":
        said.append(
            f"Should the kernel be lost: pn.TrainingEngine.resume_from({str(engine.checkpoint_dir)!r}, train_data=...)"
        )
    title = f"Training {engine.state}: epoch {min(progress.epoch, progress.epochs)} of {progress.epochs}"
    return history_chart(engine.history, log=log, title=title, said=said).still()


def layer_probe(engine: TrainingEngine) -> LiveProbe:
    """Return a dashboard's probe: all gradient norms and one layer's histogram; only norms if layers cannot be hooked."""
    watch = {
        name: WATCHED if any(True for _ in layer.parameters(recurse=False)) else WATCHED[:-1]
        for name, layer in leaf_layers(engine.module).items()
    }
    try:
        probe = LiveProbe(engine.module, watch, statistics_of=())
    except InspectionError:
        return LiveProbe(engine.module, {}, statistics_of=())
    probe.histograms_of = tuple(probe.watched)[:1]
    return probe


def keep_picture(picture: KeptPicture, frame: StateFrame) -> None:
    """Redraw the static picture when a training pauses or ends."""
    if frame.state == "paused":
        picture.changed()
    elif frame.state not in ALIVE:
        try:
            picture.redraw()
        except Exception:  # the training calls it, and must not fail
            logger.exception("The picture of the training was not drawn.")


def past_of(history: History) -> list[Frame]:
    """Return what a history has kept, as frames, a snapshot."""
    steps, losses = (values.tolist() for values in history.points("loss"))
    # Only the latest learning rate is shown; a long history keeps losses and rates of different steps.
    rate = float(history["learning_rate"][-1]) if steps else math.nan
    scale = float(history["loss_scale"][-1]) if "loss_scale" in history else None
    # An edit cuts the curve behind its step.
    curve: list[StepFrame | AnomalyFrame] = [
        StepFrame(step, 0, loss, rate, 0, 0.0, loss_scale=scale) for step, loss in zip(steps, losses, strict=True)
    ]
    curve = sorted((*curve, *history.anomalies), key=lambda frame: frame.step)
    return [*curve, *history.epoch_frames()]


def past_frames(engine: TrainingEngine) -> list[Frame]:
    """Return what happened before a dashboard of an engine."""
    history = engine.history
    frames = past_of(history)
    if "memory" in history and "process_memory" not in history:
        memory = zip(history.steps("memory").tolist(), history["memory"].tolist(), strict=True)
        frames += [MemoryFrame(step, int(used), {}) for step, used in memory]
    if len(history["loss"]):
        frames.append(engine.progress)
    if (failure := engine.error) is not None:
        said = f"{type(failure).__name__}: {failure}"
        frames.append(StateFrame("failed", error=said, node=engine.failed_at))
    return frames


def editors_of(engine: TrainingEngine, editors: Sequence[GraphEditor]) -> list[GraphEditor]:
    """Return those of `editors` that show the trained graph.

    Raises:
        InspectionError: No editor shows it; the message says why.
    """
    found: list[GraphEditor] = []
    reasons: list[str] = []
    for editor in editors:
        try:
            place_of(engine.module, editor.graph)
        except InspectionError as error:
            reasons.append(str(error))
        else:
            found.append(editor)
    if not found:
        none = "No graph editor is open. Open one of the graph that is trained: pn.GraphEditor(graph)."
        raise InspectionError(reasons[0] if reasons else none)
    return found


def trained_graph(engine: TrainingEngine) -> NodeGraph:
    """Return the graph that is trained: that of an open editor, or the one that the model was compiled from.

    Raises:
        InspectionError: The model was not compiled from a graph.
    """
    for editor in GraphEditor.opened():
        if editor.training is engine:
            return editor.graph
    graph = graph_of(engine.module)
    if graph is None:
        raise InspectionError(
            f"{type(engine.module).__name__} was not compiled from a graph, so there is none to show. Export it with "
            "pn.export(engine, path), or train what pn.compile(pn.from_module(net, args=...), reuse=net) gives."
        )
    return graph


def remedies(engine: TrainingEngine) -> list[Command]:
    """Return the commands of the buttons beside a failure."""
    if engine.fault is None:
        return []
    back: list[Command] = ["rewind"] if engine.progress.step else []
    return [*back, "batch", "skip"] if engine.fault.batch else back


@final
class Status(TrainingStatus, rename="camel"):
    """The status of a training."""

    def take(self, frame: Frame) -> None:
        """Update the status from `frame`."""
        match frame:
            case StateFrame():
                self.state, self.error, self.node = frame.state, frame.error, frame.node
            case ProgressFrame():
                self.epoch, self.epochs = frame.epoch, frame.epochs
                self.batch, self.batches, self.step = frame.batch, frame.batches, frame.step
                self.steps_per_second = _finite(frame.steps_per_second) or 0.0
                self.seconds_left = _finite(frame.seconds_left)
            case StepFrame():
                self.step, self.epoch = frame.step, frame.epoch
                self.learning_rate, self.loss_scale = _finite(frame.learning_rate), _finite(frame.loss_scale)
            case CostFrame():
                self.cost, self.cost_margin = _finite(frame.share), _finite(frame.margin)
                self.frames_per_second = _finite(frame.frames_per_second) or 0.0
            case CheckpointFrame():
                self.saved = Saved(frame.step, frame.path)
            case _:
                pass

    @property
    def ended(self) -> bool:
        """Whether no training runs, so that no frames will come."""
        return self.state not in ALIVE

    def to_json(self) -> dict[str, object]:
        """Plain JSON for the browser."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


def _finite(value: float | None) -> float | None:
    """Return `value`, or None if JSON cannot express it."""
    return value if value is not None and math.isfinite(value) else None
