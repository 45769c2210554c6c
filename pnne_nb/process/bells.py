"""Waiting for changes that other threads make under one lock, safe against interrupts at any point."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, final

SLICE: Final = 0.2
"""Seconds between two looks while waiting: a wait without end cannot be interrupted everywhere, and an interrupt may have
cut short whoever was ringing."""


@final
class Bell:
    """Wakes one thread. Both methods are single calls of C, which no interrupt can split."""

    def __init__(self) -> None:
        self._rings = SimpleQueue[None]()

    def wait(self, seconds: float) -> bool:
        """Wait until it rings, for at most that many seconds; return whether it has."""
        with suppress(Empty):
            self._rings.get(timeout=seconds)
            return True
        return False

    def ring(self) -> None:
        """Wake the waiting thread, or the next one that waits."""
        if self._rings.empty():
            self._rings.put(None)


@final
class Bells:
    """The bells of all threads that wait for changes under one lock.

    Args:
        lock: Held by whoever changes it, and by whoever rings.
    """

    def __init__(self, lock: AbstractContextManager[Any]) -> None:
        self._lock = lock
        self._bells: list[Bell] = []

    def __len__(self) -> int:
        return len(self._bells)

    def wait_until(
        self,
        ready: Callable[[], object],
        timeout: float | None = None,
        glance: Callable[[], float | None] = lambda: None,
    ) -> bool:
        """Wait until `ready`, or for `timeout` seconds, or for those of `glance` since the last bell; whether it is ready.

        Both functions are called with the lock held. No ``threading.Condition``: an interrupt that comes just when its
        lock was taken (its ``__enter__`` is Python) would leave it taken for ever, and the training would never make
        another step.
        """
        until = float("inf") if timeout is None else time.monotonic() + timeout
        bell, rung = Bell(), True
        try:
            while True:
                with self._lock:
                    if ready():
                        return True
                    if bell not in self._bells:
                        self._bells.append(bell)
                    soon = glance()
                left = until - time.monotonic()
                if left <= 0 or not (rung or soon is None):
                    return False
                rung = bell.wait(min(SLICE, left, SLICE if soon is None else soon))
        finally:
            with self._lock:
                if bell in self._bells:
                    self._bells.remove(bell)

    def ring(self) -> None:
        """Wake every waiting thread, so that it checks its condition; called with the lock held."""
        for bell in self._bells:
            bell.ring()
        self._bells.clear()

    def clear(self) -> None:
        """Forget the waiting threads in a forked child, which has none."""
        self._bells.clear()


@final
class Errand:
    """Something that one thread does for another, which waits for it: no interrupt cuts it short there.

    Attributes:
        done: Whether it has come to its end.
        error: What it has raised.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self.done = False
        self.error: BaseException | None = None
        self._work = work

    def run(self) -> None:
        """Run the function, and keep its error for the waiting thread."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001  it is raised where somebody has asked for it
            self.error = error
        self.done = True
