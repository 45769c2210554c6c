"""Carries frames from the training thread to whoever watches, in a bounded queue."""

from __future__ import annotations

import threading
from collections import deque
from typing import final

from pnne_nb.process.fork import fork_safe
from pnne_nb.telemetry.frames import Frame


@final
class Channel:
    """A bounded queue of frames whose sender never waits.

    When it is full, the oldest frame is dropped and counted: a watcher that is too slow, or gone, costs
    the training nothing. Keeping only the latest frame of each kind is the receiver's choice, made in
    `drain`'s result. All methods may be called from any thread.
    """

    def __init__(self, capacity: int = 8192) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 frame, not {capacity!r}.")
        self.capacity = capacity
        self._frames: deque[Frame] = deque()
        self._ready = fork_safe(threading.Condition())
        self._dropped = 0
        self._closed = False

    def put(self, *frames: Frame) -> None:
        """Append `frames`; drops the oldest when full, and everything once closed. Never blocks."""
        with self._ready:
            if self._closed:
                return
            was_empty = not self._frames
            self._frames.extend(frames)
            while len(self._frames) > self.capacity:
                self._frames.popleft()
                self._dropped += 1
            if was_empty and self._frames:
                self._ready.notify_all()

    def drain(self) -> list[Frame]:
        """Take every waiting frame, oldest first; empty when there is none."""
        with self._ready:
            frames = list(self._frames)
            self._frames.clear()
            return frames

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until a frame is there or the channel is closed.

        Args:
            timeout: Seconds at most; None waits for ever.

        Returns:
            Whether a frame is waiting.
        """
        with self._ready:
            self._ready.wait_for(lambda: bool(self._frames) or self._closed, timeout)
            return bool(self._frames)

    def close(self) -> None:
        """Refuse further frames and wake every waiter; frames that wait can still be drained."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()

    @property
    def closed(self) -> bool:
        """Whether the channel was closed."""
        with self._ready:
            return self._closed

    @property
    def dropped(self) -> int:
        """How many frames were dropped because nobody took them in time."""
        with self._ready:
            return self._dropped
