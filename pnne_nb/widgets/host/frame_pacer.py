"""Decides when the next frame may go to the browser, from given times: it has no thread and no clock."""

from __future__ import annotations

from typing import Final, final

IN_FLIGHT: Final = 4
"""Frames that may be under way; the browser, which the control bar tells, acknowledges as seldom."""


@final
class Pacer:
    """At most `IN_FLIGHT` frames in flight, at most `hz` a second, and a slow pulse while nobody acknowledges.

    A kernel has no back-pressure: what is sent faster than a browser paints piles up in front of every other
    message. So no more than a few go unacknowledged: the browser acknowledges every fourth, because an
    acknowledgement costs the kernel as much as half a drawing, and a page too slow for ten a second is at most
    four behind. Where none comes (no view, a hidden tab, a notebook run without a browser), one frame per
    `keep_alive` seconds keeps the models current, so that a page that opens later shows the present. Times are in
    seconds, monotonic.

    Args:
        hz: Frames a second at most.
        keep_alive: Seconds between frames that nobody acknowledges.
        budget: Share of one core's time that drawing may take, in (0, 1]: ten frames a second as long as one takes
            1.2 ms of the processor. Beside a training it takes 1 to 2 ms, more where others want the cores too: it finds
            its code and data gone from the caches, which the training fills. Most of it holds Python's lock, which the
            training then waits for.
    """

    def __init__(self, hz: float = 10.0, keep_alive: float = 1.0, budget: float = 0.012) -> None:
        self.hz = hz
        self.keep_alive = keep_alive
        self.budget = budget
        self.tick = 0
        self._acknowledged = 0
        self._sent = float("-inf")
        self._pause = 0.0
        self._watched_until = float("-inf")

    def send(self, now: float) -> int:
        """Note that a frame goes out at `now`; return its number."""
        self.tick += 1
        self._sent = now
        self._pause = 1 / self.hz
        return self.tick

    def spent(self, cost: float) -> None:
        """Drawing the latest frame took `cost` seconds of the processor, which is what fewer drawings would save."""
        self._pause = max(1 / self.hz, cost / self.budget)

    def acknowledge(self, tick: int, now: float) -> None:
        """Note that a browser has painted frame `tick`; numbers that were never sent are ignored."""
        if self._acknowledged < tick <= self.tick:
            self._acknowledged = tick
        if tick <= self.tick:
            self._watched_until = now + 3 * self.keep_alive

    def delay(self, now: float) -> float:
        """Return the seconds until the next frame may go, 0 if it may go at once."""
        in_flight = self.tick - self._acknowledged
        pause = self._pause if in_flight < IN_FLIGHT else max(self._pause, self.keep_alive)
        return max(0.0, self._sent + pause - now)

    def watched(self, now: float) -> bool:
        """Return whether a browser has acknowledged lately, so that detail is worth its cost."""
        return now < self._watched_until
