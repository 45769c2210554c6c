"""Notices a step that does not come to its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, final

from pnne_nb.frames import AnomalyFrame

PATIENCE = 30.0
"""Seconds after which a step counts as stalled, unless others took as long."""
_TIMES_LONGEST = 3.0
_LOOKS = 8
"""How often the thread looks within the patience."""


@final
class StallWatch:
    """A thread beside the training's that tells of a step which takes far longer than all before.

    Entered by the training thread for as long as it is at work; each stall is told once, and again whenever it has
    lasted twice as long.

    Args:
        doing: What is going on, in words.
        step: The step under way.
        tell: Called in the thread of the watch, because the training's is held up.
        data: What the training reads, in words.
        stalled: Called there at every look at a step that was told of: somebody may want the end by now.
    """

    def __init__(
        self,
        doing: Callable[[], str],
        step: Callable[[], int],
        tell: Callable[[AnomalyFrame], None],
        data: Callable[[], str],
        stalled: Callable[[], None],
    ) -> None:
        self._doing = doing
        self._step = step
        self._tell = tell
        self._data = data
        self._stalled = stalled
        self._since: float | None = None
        self._longest = 0.0
        self._told_of: float | None = None
        self._again_at = 0.0
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self._over = threading.Event()
        threading.Thread(target=self._watch, args=(self._over,), name="pnne-stall-watch", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def began(self, now: float | None = None) -> None:
        """A step begins."""
        self._since = time.monotonic() if now is None else now

    def ended(self, now: float | None = None) -> None:
        """It has ended."""
        if self._since is not None:
            self._longest = max(self._longest, (time.monotonic() if now is None else now) - self._since)
        self._since = None

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(PATIENCE / _LOOKS):
            found = self.look(time.monotonic())
            if found is not None:
                self._tell(found)
            if self._since is not None and self._since == self._told_of:
                self._stalled()

    def look(self, now: float) -> AnomalyFrame | None:
        """What there is to tell at `now`, in seconds of the monotonic clock."""
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
            "held for ever in them. stop() ends workers that do not answer; without any (num_workers=0), only the end of "
            "the kernel does."
            if doing.startswith("fetching")
            else "A step cannot be interrupted from outside; what runs in it (a print of the stack: faulthandler."
            "dump_traceback()) tells what it waits for."
        )
        return AnomalyFrame(self._step(), "stalled", message, hint=hint)
