"""Whom to tell when something happens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, final, get_args

from pnne_nb.errors import TrainingError, near
from pnne_nb.frames import AnomalyFrame, EpochFrame, StateFrame, StepFrame

Topic: TypeAlias = Literal["step", "epoch", "state", "anomaly"]
TOPICS: tuple[str, ...] = get_args(Topic)


@final
class Listeners:
    """Functions by topic, called with the frame in the thread where it happens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Each entry is an object of its own, so that a function added twice is removed once.
        self._entries: tuple[tuple[str, Callable[[Any], object]], ...] = ()

    def add(self, topic: str, function: Callable[[Any], object]) -> Callable[[], None]:
        """Call `function` at each event of `topic`; returns the function that ends this.

        Raises:
            TrainingError: There is no such topic.
        """
        if topic not in TOPICS:
            raise TrainingError(
                f"There is no event {topic!r}; there are {', '.join(map(repr, TOPICS))}.{near(topic, TOPICS)}"
            )
        entry = (topic, function)
        with self._lock:
            self._entries = (*self._entries, entry)

        def remove() -> None:
            with self._lock:
                self._entries = tuple(other for other in self._entries if other is not entry)

        return remove

    def tell(self, frame: StepFrame | EpochFrame | StateFrame | AnomalyFrame) -> None:
        """Call the functions for this kind of frame, in the order in which they were added."""
        entries = self._entries
        if not entries:
            return
        topic = _topic_of(frame)
        for wanted, function in entries:
            if wanted == topic:
                function(frame)


def _topic_of(frame: StepFrame | EpochFrame | StateFrame | AnomalyFrame) -> Topic:
    match frame:
        case StepFrame():
            return "step"
        case EpochFrame():
            return "epoch"
        case StateFrame():
            return "state"
        case AnomalyFrame():
            return "anomaly"
