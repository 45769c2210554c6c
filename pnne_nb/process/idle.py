"""Runs long work in pieces in the background, and abandons it when it is out of date.

Whoever does such work in a thread of its own does it in `idle_work`; whoever loops within it calls `breathe`, which
costs next to nothing elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, final

PIECE: Final = 0.004
"""Seconds that are worked without a break: a gesture waits no longer for Python's lock."""

_BREAK: Final = 0.001


class OutOfDateError(Exception):
    """The input of the work has changed; the work begins again or continues later."""


@final
class _Work:
    def __init__(self, out_of_date: Callable[[], bool]) -> None:
        self._out_of_date = out_of_date
        self._until = time.monotonic() + PIECE

    def breathe(self) -> None:
        if time.monotonic() < self._until:
            return
        if self._out_of_date():
            raise OutOfDateError
        # Python hands its lock over only to somebody who waits for it at this very moment, or after 5 ms of waiting.
        time.sleep(_BREAK)
        self._until = time.monotonic() + PIECE


_WORK: Final[ContextVar[_Work | None]] = ContextVar("pnne_idle_work", default=None)


@contextmanager
def idle_work(out_of_date: Callable[[], bool]) -> Iterator[None]:
    """Run the ``with`` block in pieces.

    Args:
        out_of_date: Whether it is to be given up; asked between two pieces.

    Raises:
        OutOfDateError: If it was given up.
    """
    token = _WORK.set(_Work(out_of_date))
    try:
        yield
    finally:
        _WORK.reset(token)


def breathe() -> None:
    """Take a break between two steps of a loop, if the work is idle work and a break is due.

    Raises:
        OutOfDateError: If the work is to be given up. Leave everything so that it can be begun again.
    """
    work = _WORK.get()
    if work is not None:
        work.breathe()
