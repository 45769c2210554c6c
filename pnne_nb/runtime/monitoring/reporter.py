"""Reports what a training does to its history, its channel and its listeners, which are callbacks by event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, final

from pnne_nb.diagnosis.finding import Rule
from pnne_nb.diagnosis.judge import Judge
from pnne_nb.errors import TrainingError, meant, shown
from pnne_nb.process.subscribers import Subscribers
from pnne_nb.runtime.monitoring.history import History
from pnne_nb.telemetry.channel import Channel
from pnne_nb.telemetry.frames import (
    AnomalyFrame,
    BaselineFrame,
    CheckpointFrame,
    EpochFrame,
    EpochStartFrame,
    Frame,
    LookFrame,
    MemoryFrame,
    NormsFrame,
    StateFrame,
    StepFrame,
    TimeFrame,
    TrainingState,
)

Told: TypeAlias = StepFrame | EpochStartFrame | EpochFrame | StateFrame | AnomalyFrame | CheckpointFrame

_TOPIC_OF: dict[type[Told], str] = {
    StepFrame: "step",
    EpochStartFrame: "epoch_start",
    EpochFrame: "epoch",
    StateFrame: "state",
    AnomalyFrame: "anomaly",
    CheckpointFrame: "checkpoint",
}


@final
class Listeners:
    """Callbacks by topic, called with the frame in the thread of the event."""

    def __init__(self) -> None:
        self._entries = Subscribers[tuple[str, Callable[[Any], object]]]()
        self._waited_for = Subscribers[str]()

    def add(self, topic: object, function: Callable[[Any], object], *, waits: bool = True) -> Callable[[], None]:
        """Call `function` with the frame of each event of `topic`; returns the function that ends this.

        A training in another process waits for the function if it is asked to (`waits`).

        Raises:
            TrainingError: There is no such topic, or nothing to call.
        """
        topics = _TOPIC_OF.values()
        if not isinstance(topic, str) or topic not in topics:
            raise TrainingError(
                f"There is no event {shown(topic)}; there are {', '.join(map(repr, topics))}.{meant(topic, topics)} "
                'Write engine.on("epoch", function).'
            )
        if not callable(function):
            raise TrainingError(f"What is called at each {topic} must be a function, not {shown(function)}.")
        removals = [self._entries.add((topic, function))]
        if waits:
            removals.append(self._waited_for.add(topic))

        def remove() -> None:
            for each in removals:
                each()

        return remove

    @property
    def waited_for(self) -> list[str]:
        """The topics whose callbacks make a training in another process wait."""
        return sorted(set(self._waited_for))

    def tell(self, frame: Told) -> None:
        """Call the functions for this kind of frame, in the order in which they were added."""
        if not self._entries:
            return
        topic = _TOPIC_OF[type(frame)]
        for wanted, function in self._entries:
            if wanted == topic:
                try:
                    function(frame)
                except Exception as error:
                    name = getattr(function, "__qualname__", type(function).__name__)
                    error.add_note(f"In {name}, which on({topic!r}, ...) has registered.")
                    raise


@final
class Reports:
    """Passes the events of a training to its history, channel and listeners, and to the judge, whose findings are events."""

    def __init__(self, rules: Iterable[Rule] | None = None) -> None:
        self.history = History()
        self.channel = Channel()
        self.listeners = Listeners()
        self.judge = Judge(rules)

    def announce(self, frame: EpochFrame | AnomalyFrame) -> None:
        """Record and publish a frame; an error of a listener propagates."""
        self.history.record(frame)
        self.channel.put(frame)
        self.listeners.tell(frame)
        if isinstance(frame, AnomalyFrame):
            self.judge.hear(frame)
        else:
            self._announce_all(self.judge.ends_epoch(frame))

    def stepped(self, frame: StepFrame) -> None:
        """Publish a step, and the findings that its numbers lead to."""
        if self.judge.returns_to(frame.step):
            self.judge.recall(self.history.frames())
        self.history.record_step(frame)
        self.channel.put(frame)
        self.listeners.tell(frame)
        self._announce_all(self.judge.steps(frame))

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
                self.announce(frame)
                continue
            if isinstance(frame, LookFrame | BaselineFrame | NormsFrame):
                self._announce_all(self.judge.sees(frame))
            if not isinstance(frame, LookFrame | BaselineFrame):
                self.channel.put(frame)

    def conclude(self) -> None:
        """Announce what is found at the end of a training."""
        self._announce_all(self.judge.look())

    def _announce_all(self, found: Iterable[AnomalyFrame]) -> None:
        for one in found:
            self.announce(one)

    def state_changed(self, state: TrainingState, error: BaseException | None, node: str | None) -> None:
        """Publish a new state; `error` is what made the training fail, at `node`."""
        frame = StateFrame(state=state, error=None if error is None else _told(error), node=node)
        self.channel.put(frame)
        self.listeners.tell(frame)


def _told(error: BaseException) -> str:
    """Return an error with the notes about its place in user code, without those about the step."""
    places = [note for note in getattr(error, "__notes__", ()) if note.startswith("In ")]
    return "\n".join([f"{type(error).__name__}: {error}", *places])
