"""Sends commits to a page in bundles where they come faster than a person makes them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, final

from pnne_nb.process.fork import fork_safe

STEADY: Final = 30
"""Commits that are told one by one within a second."""

PAUSE: Final = 0.25
"""Seconds until a page is told of those that were held."""

_SHARE: Final = 0.1  # of the time, at most, goes into telling


@final
class Bursts:
    """Decides which commits a page is told of at once, and which together with others.

    A cell may commit thousands of times in a second. A Jupyter server silently drops what a kernel sends faster than
    a thousand messages a second, and a page that draws each state would be busy for minutes.

    Args:
        catch_up: Tells the page the state of the whole document; called from a thread.
    """

    def __init__(self, catch_up: Callable[[], None]) -> None:
        self._catch_up = catch_up
        self._lock = fork_safe(threading.Lock())
        self._told: deque[float] = deque(maxlen=STEADY)
        self._timer: threading.Timer | None = None
        self._pause = PAUSE

    def hold(self) -> bool:
        """Return whether the commit that was just made is to be told with others; that is then seen to."""
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
        """Tell nothing any more."""
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
