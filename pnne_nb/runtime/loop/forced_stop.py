"""`ForcedStop`: ends a training that is stuck in its data within five seconds of a stop, and keeps its result."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, final

from pnne_nb.runtime.data.sources import dismiss, workers_of
from pnne_nb.runtime.loop.loop import TrainingLoop

DISMISSED: Final = 1.0
"""Seconds after which workers that do not answer are ended, and a call that loads the data here is interrupted."""
_AGAIN: Final = 0.5
"""Seconds between two such attempts."""
KILLED: Final = 2.0
"""Seconds after which workers that did not end when asked to are killed."""
LEFT: Final = 3.5
"""Seconds after which a call that nothing ends is left behind: the last checkpoint comes after it."""
SLOWER: Final = 3
"""How many times as long a function may take that is told of steps: what it does is lost when it is cut short."""


@final
class ForcedStop:
    """Checks from another thread whether a training that must end is stuck in its data.

    Args:
        loop: The training.
        thread: The number of its thread, or None while that has not begun.
        stopping: Whether it is to end.
        left: Called when its thread was left behind: the training ends in the calling thread.
    """

    def __init__(
        self,
        loop: TrainingLoop,
        thread: Callable[[], int | None],
        stopping: Callable[[], bool],
        left: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._thread = thread
        self._stopping = stopping
        self._left = left
        self._call = -1
        self._since = 0.0
        self._next = 0.0

    def look(self) -> None:
        """Act if the training is asked to end."""
        if self._stopping():
            self.act(time.monotonic())

    def act(self, now: float) -> None:
        """Interrupt or abandon the call if it is time, at `now` in seconds of the monotonic clock."""
        loop, calls, thread = self._loop, self._loop.foreign_calls, self._thread()
        # It may wait for another training that is stuck.
        loop.turn.given_up_by = thread
        if thread is None or not calls.within(thread):
            self._call = -1
            return
        slowly = SLOWER if calls.function else 1
        if self._call != calls.count:
            self._call, self._since, self._next = calls.count, now, now + DISMISSED * slowly
        lasted = (now - self._since) / slowly
        if lasted >= LEFT and calls.leave_behind(thread):
            self._left()
        elif now >= self._next:
            self._next = now + _AGAIN
            for source in (loop.recipe.train, loop.recipe.val):
                dismiss(source, at_once=lasted >= KILLED)
            # Whoever waits for workers hears of their death by itself.
            if not any(map(workers_of, filter(None, (loop.recipe.train, loop.recipe.val)))) or lasted >= KILLED:
                calls.interrupt(thread)
