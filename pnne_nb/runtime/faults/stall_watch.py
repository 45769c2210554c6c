"""`StallWatch`: detects a step that takes far too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import final

from pnne_nb.telemetry.frames import AnomalyFrame

PATIENCE = 30.0
"""Seconds after which a step counts as stalled, unless others took as long."""
_TIMES_LONGEST = 3.0
_LOOKS = 8
"""How often the thread looks within the patience."""
_MOMENT = 0.1
"""Seconds between two looks while somebody waits for the end."""


@final
class StallWatch:
    """A thread that reports a step which takes far longer than all steps before.

    Each stall is told once, and again whenever it has lasted twice as long.

    Args:
        doing: What is going on, in words.
        step: The step under way.
        tell: Called in the thread of the watch, because the training's is held up.
        data: What the training reads, in words.
        stop: Set when the training is asked to end.
        stopping: Called from then on, every moment, with the seconds since.
    """

    def __init__(
        self,
        doing: Callable[[], str],
        step: Callable[[], int],
        tell: Callable[[AnomalyFrame], None],
        data: Callable[[], str],
        stop: threading.Event,
        stopping: Callable[[float], None],
    ) -> None:
        self._doing = doing
        self._step = step
        self._tell = tell
        self._data = data
        self._stop = stop
        self._stopping = stopping
        self._since: float | None = None
        self._longest = 0.0
        self._told_of: float | None = None
        self._again_at = 0.0
        self._over = threading.Event()

    def start(self) -> None:
        self._since = None
        self._over = threading.Event()
        threading.Thread(target=self._watch, args=(self._over,), name="pnne-stall-watch", daemon=True).start()

    def end(self) -> None:
        self._over.set()
        self._stop.set()

    def began(self, now: float | None = None) -> None:
        self._since = time.monotonic() if now is None else now

    def ended(self, now: float | None = None) -> None:
        if self._since is not None:
            self._longest = max(self._longest, (time.monotonic() if now is None else now) - self._since)
        self._since = None

    def _watch(self, over: threading.Event) -> None:
        asked: float | None = None
        while not over.is_set():
            now = time.monotonic()
            found = self.look(now)
            if found is not None:
                self._tell(found)
            if self._stop.is_set():
                asked = now if asked is None else asked
                self._stopping(now - asked)
                over.wait(_MOMENT)
            else:
                self._stop.wait(PATIENCE / _LOOKS)

    def look(self, now: float) -> AnomalyFrame | None:
        """Return a warning if the step is stalled at `now` (seconds, monotonic), or None."""
        since = self._since
        if since is None:
            return None
        lasted = now - since
        limit = self._again_at if since == self._told_of else max(PATIENCE, _TIMES_LONGEST * self._longest)
        if lasted < limit:
            return None
        self._told_of, self._again_at = since, 2 * lasted
        return self._anomaly(lasted)

    def _anomaly(self, lasted: float) -> AnomalyFrame:
        doing = self._doing()
        message = f"The training has stalled: {doing} has taken {lasted:.0f} s so far."
        hint = (
            f"Look at what {self._data()} waits for; a lock or a socket that was made before the workers started may be "
            "held for ever in them. stop() ends such workers; of data that is read in the kernel, it waits for the batch."
            if doing.startswith("fetching")
            else "A step cannot be interrupted from outside; what runs in it (a print of the stack: faulthandler."
            "dump_traceback()) tells what it waits for."
        )
        return AnomalyFrame(self._step(), "stalled", message, hint=hint)
