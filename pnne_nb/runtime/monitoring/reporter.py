"""Reports what a training does to its history, its channel and its listeners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from torch import nn

from pnne_nb.runtime.faults.divergence import Trends
from pnne_nb.runtime.faults.fault_location import node_of
from pnne_nb.runtime.monitoring.events import Listeners
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.telemetry.channel import Channel
from pnne_nb.telemetry.frames import (
    AnomalyFrame,
    CheckpointFrame,
    EpochFrame,
    Frame,
    MemoryFrame,
    StateFrame,
    StepFrame,
    TimeFrame,
    TrainingState,
)


@final
class Reports:
    """Passes the events of a training to its history, channel and listeners."""

    def __init__(self) -> None:
        self.history = History()
        self.channel = Channel()
        self.listeners = Listeners()
        self._trends = Trends()

    def announce(self, frame: EpochFrame | AnomalyFrame) -> None:
        """Record and publish a frame; an error of a listener propagates."""
        self.history.record(frame)
        self.channel.put(frame)
        self.listeners.tell(frame)
        found = self._trends.judge(frame) if isinstance(frame, EpochFrame) else None
        if found is not None:
            self.announce(found)

    def stepped(self, frame: StepFrame) -> None:
        """Publish a step, and the anomalies that its numbers show."""
        self.history.record_step(frame)
        self.channel.put(frame)
        self.listeners.tell(frame)
        for anomaly in self._trends.observe(frame):
            self.announce(anomaly)

    def saved(self, frame: CheckpointFrame) -> None:
        """Publish a checkpoint, which the history leaves out because the checkpoint contains the history."""
        self.channel.put(frame)
        self.listeners.tell(frame)

    def looked(self, memory: MemoryFrame, times: TimeFrame) -> None:
        """Record and publish the monitor's frames."""
        self.history.record(memory)
        self.channel.put(memory, times)

    def publish(self, frames: Sequence[Frame]) -> None:
        """Publish the frames of probes."""
        for frame in frames:
            if isinstance(frame, AnomalyFrame):
                self._trends.hear(frame)
                self.announce(frame)
            else:
                self.channel.put(frame)

    def state_changed(self, state: TrainingState, error: BaseException | None, model: nn.Module) -> None:
        """Publish a new state; `error` is the failure of a training of `model`."""
        frame = StateFrame(
            state=state,
            error=None if error is None else _told(error),
            node=None if error is None else node_of(error, model),
        )
        self.channel.put(frame)
        self.listeners.tell(frame)


def _told(error: BaseException) -> str:
    """Return an error with the notes about its place in user code, without those about the step."""
    places = [note for note in getattr(error, "__notes__", ()) if note.startswith("In ")]
    return "\n".join([f"{type(error).__name__}: {error}", *places])
