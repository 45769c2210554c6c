"""Throttles the commits sent to a page when they come faster than a person makes them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, final

from pnne_nb.process.fork import fork_safe

STEADY: Final = 30
"""Commits within one second that are sent one by one."""

PAUSE: Final = 0.25
"""Seconds until held commits are sent."""

_SHARE: Final = 0.1  # largest share of the time for sending


@final
class Bursts:
    """Decides which commits a page receives at once, and which together with others.

    A cell may commit thousands of times in a second. A Jupyter server silently drops what a kernel sends faster than
    a thousand messages a second, and a page that draws each state would be busy for minutes.

    Args:
        catch_up: Sends the whole document to the page; called from a thread.
    """

    def __init__(self, catch_up: Callable[[], None]) -> None:
        self._catch_up = catch_up
        self._lock = fork_safe(threading.Lock())
        self._told: deque[float] = deque(maxlen=STEADY)
        self._timer: threading.Timer | None = None
        self._pause = PAUSE

    def hold(self) -> bool:
        """Return whether the latest commit is held; held commits are sent together later."""
        now = time.monotonic()
        with self._lock:
            if self._timer is None and (len(self._told) < STEADY or now - self._told[0] > 1.0):
                self._told.append(now)
                return False
            if self._timer is None:
                self._timer = threading.Timer(self._pause, self._tell)
                self._timer.daemon = True
                self._timer.start()
            return True

    def close(self) -> None:
        """Send nothing any more."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _tell(self) -> None:
        with self._lock:
            self._timer = None
        started = time.monotonic()
        self._catch_up()
        self._pause = max(PAUSE, (time.monotonic() - started) / _SHARE)
