"""The training thread: a daemon that is given time to end well when the interpreter does."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import final

import torch

_SECONDS_AT_EXIT = 10.0
"""A step that is still running then is cut off, before Python 3.14 with an abort. A server that shuts a kernel down
waits five seconds and kills it, so nobody there waits longer for this."""
_SWITCH_INTERVAL = 2e-4
"""Seconds: while a cell runs pure Python, a small model trains some ten times faster than with Python's 5 ms."""


def threads_for_training() -> int:
    """How many threads torch may use for training: all that the caller's thread may, but one core for the kernel."""
    return max(1, min(torch.get_num_threads(), (os.cpu_count() or 2) - 1))


def start_training_thread(
    work: Callable[[], None], stop: Callable[[], None], ended: Callable[[float], bool], threads: int
) -> None:
    """Run `work` in a thread of its own.

    Args:
        work: Must not raise.
        stop: Asks the work to end soon; called when the interpreter exits.
        ended: Waits so many seconds for its end.
        threads: How many threads torch's operations use there.
    """
    token = object()

    def run() -> None:
        # Counts for this thread only.
        torch.set_num_threads(threads)
        try:
            work()
        finally:
            _at_work.remove(token)

    _at_work.add(token, stop, ended)
    threading.Thread(target=run, name="pnne-training", daemon=True).start()


@final
class _AtWork:
    """The trainings under way in this process; while there are any, Python switches threads more often."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trainings: dict[object, tuple[Callable[[], None], Callable[[float], bool]]] = {}
        self._usual = sys.getswitchinterval()

    def add(self, token: object, stop: Callable[[], None], ended: Callable[[float], bool]) -> None:
        with self._lock:
            if not self._trainings:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(_SWITCH_INTERVAL)
            self._trainings[token] = (stop, ended)

    def remove(self, token: object) -> None:
        with self._lock:
            del self._trainings[token]
            if not self._trainings:
                sys.setswitchinterval(self._usual)

    def end_all(self) -> None:
        """Ask every training to end and give its running step some seconds; a daemon that needs longer is left."""
        with self._lock:
            trainings = list(self._trainings.values())
        for stop, _ in trainings:
            stop()
        for _, ended in trainings:
            ended(_SECONDS_AT_EXIT)


_at_work = _AtWork()
atexit.register(_at_work.end_all)
