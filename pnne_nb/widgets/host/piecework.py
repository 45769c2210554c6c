"""`Piecework`: long work that is done between the kernel's messages, so that clicks are answered meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import final


@final
class Piecework:
    """One piece of work after the other, each until the next ``yield``; new work takes the place of the old one.

    In a script, where no loop waits for messages, all of it is done at once.
    """

    def __init__(self) -> None:
        self._work: Generator[object, None, None] | None = None

    def start(self, work: Generator[object, None, None]) -> None:
        """Begin `work`, which must not raise, and not ask for other work itself."""
        self.stop()
        self._work = work
        try:
            asyncio.get_running_loop().call_soon(self._go_on, work)
        except RuntimeError:
            for _ in work:
                pass
            self._work = None

    def stop(self) -> bool:
        """Give up what is left of the work; return whether there was any."""
        work, self._work = self._work, None
        return work is not None

    def finish(self) -> None:
        """Do all that is left of the work now."""
        work, self._work = self._work, None
        for _ in work or ():
            pass

    def _go_on(self, work: Generator[object, None, None]) -> None:
        if self._work is work:
            if next(work, self) is self:
                self._work = None
            else:
                asyncio.get_running_loop().call_soon(self._go_on, work)
