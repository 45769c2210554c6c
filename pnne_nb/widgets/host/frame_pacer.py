"""`Pacer`: decides when the next frame is sent to the browser; it has neither a thread nor a clock."""

from __future__ import annotations

from typing import Final, final

IN_FLIGHT: Final = 4
"""Most frames without an acknowledgement; the browser acknowledges every such number of frames."""


@final
class Pacer:
    """Allows at most `IN_FLIGHT` unacknowledged frames and at most `hz` a second, and few without acknowledgements.

    A kernel has no back-pressure: frames that are sent faster than a browser paints delay every other message. The browser
    acknowledges every fourth frame, because an acknowledgement costs the kernel half as much as a drawing; a slow page is
    at most four frames behind. Without acknowledgements (no view, a hidden tab, no browser), one frame per `keep_alive`
    seconds keeps the widgets current for a page that opens later. Times are in seconds, monotonic.

    Args:
        hz: Most frames a second.
        keep_alive: Seconds between frames without acknowledgements.
        budget: Share of one core's time for drawing, in (0, 1]. Beside a training, a drawing takes 1 to 2 ms, because the
            training fills the caches, and it mostly holds Python's lock, for which the training waits.
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
        """Record that a frame is sent at `now`; return its number."""
        self.tick += 1
        self._sent = now
        self._pause = 1 / self.hz
        return self.tick

    def spent(self, cost: float) -> None:
        """Record that drawing the latest frame took `cost` seconds of processor time."""
        self._pause = max(1 / self.hz, cost / self.budget)

    def acknowledge(self, tick: int, now: float) -> None:
        """Record that a browser has painted frame `tick`; unknown numbers are ignored."""
        if self._acknowledged < tick <= self.tick:
            self._acknowledged = tick
        if tick <= self.tick:
            self._watched_until = now + 3 * self.keep_alive

    def delay(self, now: float) -> float:
        """Return the seconds until the next frame may be sent."""
        in_flight = self.tick - self._acknowledged
        pause = self._pause if in_flight < IN_FLIGHT else max(self._pause, self.keep_alive)
        return max(0.0, self._sent + pause - now)

    def watched(self, now: float) -> bool:
        """Return whether a browser has acknowledged a frame lately."""
        return now < self._watched_until
