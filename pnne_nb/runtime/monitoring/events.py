"""Calls the callbacks of a training, by event."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, TypeAlias, final, get_args

from pnne_nb.errors import TrainingError, near, shown
from pnne_nb.process.subscribers import Subscribers
from pnne_nb.telemetry.frames import (
    AnomalyFrame,
    CheckpointFrame,
    EpochFrame,
    EpochStartFrame,
    StateFrame,
    StepFrame,
)

Topic: TypeAlias = Literal["step", "epoch_start", "epoch", "state", "anomaly", "checkpoint"]
TOPICS: tuple[str, ...] = get_args(Topic)
Told: TypeAlias = StepFrame | EpochStartFrame | EpochFrame | StateFrame | AnomalyFrame | CheckpointFrame


@final
class Listeners:
    """Callbacks by topic, called with the frame in the thread of the event.

    Attributes:
        calling: Makes the block around each call of a function with that name.
    """

    def __init__(self) -> None:
        self._entries = Subscribers[tuple[str, Callable[[Any], object]]]()
        self._waited_for = Subscribers[str]()
        self.calling: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()

    def add(self, topic: object, function: Callable[[Any], object], *, waits: bool = True) -> Callable[[], None]:
        """Call `function` with the frame of each event of `topic`; returns the function that ends this.

        Args:
            topic: One of `TOPICS`.
            function: Takes the frame.
            waits: Whether a training in another process waits for the function.

        Raises:
            TrainingError: There is no such topic, or nothing to call.
        """
        if not isinstance(topic, str) or topic not in TOPICS:
            raise TrainingError(
                f"There is no event {shown(topic)}; there are {', '.join(map(repr, TOPICS))}.{near(topic, TOPICS)}"
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
        topic = _TOPICS[type(frame)]
        for wanted, function in self._entries:
            if wanted == topic:
                name = getattr(function, "__qualname__", type(function).__name__)
                try:
                    with self.calling(f"{name}, which on({topic!r}, ...) has registered"):
                        function(frame)
                except Exception as error:
                    error.add_note(f"In {name}, which on({topic!r}, ...) has registered.")
                    raise


_TOPICS: dict[type[Told], Topic] = {
    StepFrame: "step",
    EpochStartFrame: "epoch_start",
    EpochFrame: "epoch",
    StateFrame: "state",
    AnomalyFrame: "anomaly",
    CheckpointFrame: "checkpoint",
}
