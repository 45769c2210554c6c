"""Whom to tell when something happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, final, get_args

from pnne_nb.errors import TrainingError, near, shown
from pnne_nb.frames import AnomalyFrame, CheckpointFrame, EpochFrame, StateFrame, StepFrame
from pnne_nb.subscribers import Subscribers

Topic: TypeAlias = Literal["step", "epoch", "state", "anomaly", "checkpoint"]
TOPICS: tuple[str, ...] = get_args(Topic)
Told: TypeAlias = StepFrame | EpochFrame | StateFrame | AnomalyFrame | CheckpointFrame


@final
class Listeners:
    """Functions by topic, called with the frame in the thread where it happens."""

    def __init__(self) -> None:
        self._entries = Subscribers[tuple[str, Callable[[Any], object]]]()

    def add(self, topic: object, function: Callable[[Any], object]) -> Callable[[], None]:
        """Call `function` at each event of `topic`; returns the function that ends this.

        Raises:
            TrainingError: There is no such topic, or nothing to call.
        """
        if not isinstance(topic, str) or topic not in TOPICS:
            raise TrainingError(
                f"There is no event {shown(topic)}; there are {', '.join(map(repr, TOPICS))}.{near(topic, TOPICS)}"
            )
        if not callable(function):
            raise TrainingError(f"What is called at each {topic} must be a function, not {shown(function)}.")
        return self._entries.add((topic, function))

    def tell(self, frame: Told) -> None:
        """Call the functions for this kind of frame, in the order in which they were added."""
        if not self._entries:
            return
        topic = _topic_of(frame)
        for wanted, function in self._entries:
            if wanted == topic:
                try:
                    function(frame)
                except Exception as error:
                    name = getattr(function, "__qualname__", type(function).__name__)
                    error.add_note(f"In {name}, which on({topic!r}, ...) has asked for.")
                    raise


def _topic_of(frame: Told) -> Topic:
    match frame:
        case StepFrame():
            return "step"
        case EpochFrame():
            return "epoch"
        case StateFrame():
            return "state"
        case AnomalyFrame():
            return "anomaly"
        case CheckpointFrame():
            return "checkpoint"
