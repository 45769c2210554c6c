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
    """The one way by which news of a training gets out.

    Attributes:
        history: What was measured.
        channel: Every frame that watchers want, bounded.
        listeners: Functions to be called.
    """

    def __init__(self) -> None:
        self.history = History()
        self.channel = Channel()
        self.listeners = Listeners()
        self._trends = Trends()

    def announce(self, frame: EpochFrame | AnomalyFrame) -> None:
        """Keep and tell what happened; what a listener raises comes out here."""
        self.history.record(frame)
        self.channel.put(frame)
        self.listeners.tell(frame)
        found = self._trends.judge(frame) if isinstance(frame, EpochFrame) else None
        if found is not None:
            self.announce(found)

    def stepped(self, frame: StepFrame) -> None:
        """Announce a step, and what its numbers give reason for."""
        self.history.record_step(frame)
        self.channel.put(frame)
        self.listeners.tell(frame)
        for anomaly in self._trends.observe(frame):
            self.announce(anomaly)

    def saved(self, frame: CheckpointFrame) -> None:
        """Tell of a checkpoint; the history, which it holds, does not speak of it."""
        self.channel.put(frame)
        self.listeners.tell(frame)

    def looked(self, memory: MemoryFrame, times: TimeFrame) -> None:
        """Keep and tell what the monitor saw."""
        self.history.record(memory)
        self.channel.put(memory, times)

    def publish(self, frames: Sequence[Frame]) -> None:
        """Tell what probes measured."""
        for frame in frames:
            if isinstance(frame, AnomalyFrame):
                self._trends.hear(frame)
                self.announce(frame)
            else:
                self.channel.put(frame)

    def state_changed(self, state: TrainingState, error: BaseException | None, model: nn.Module) -> None:
        """Tell a new state; `error` is why a training failed, somewhere in `model`."""
        frame = StateFrame(
            state=state,
            error=None if error is None else _told(error),
            node=None if error is None else node_of(error, model),
        )
        self.channel.put(frame)
        self.listeners.tell(frame)


def _told(error: BaseException) -> str:
    """Return an error with the notes about its place in somebody's code, without those about the step."""
    places = [note for note in getattr(error, "__notes__", ()) if note.startswith("In ")]
    return "\n".join([f"{type(error).__name__}: {error}", *places])
