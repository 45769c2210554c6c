"""The training thread: a daemon that gets time to end properly at the interpreter's exit."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import final

import torch

from pnne_nb.process.fork import fork_safe, renewed_after_fork
from pnne_nb.runtime.thread.foreign_calls import thread_ended

_SECONDS_AT_EXIT = 10.0
"""A step that is still running then is cut off, before Python 3.14 with an abort. A server that shuts a kernel down
waits five seconds and kills it, so nobody there waits longer for this."""
_SWITCH_INTERVAL = 2e-4
"""Seconds: while a cell runs pure Python, a small model trains some ten times faster than with Python's 5 ms."""
_LONG_SWITCH_INTERVAL = 0.05
"""Seconds, while a cell keeps Python's lock in C, in a long regular expression say: whoever has waited for it then should
get far, a click to its widget and the training to the end of its step, before the cell has it again."""
_LOOK = 0.1
"""Seconds between two looks how long a thread waits for the lock."""
_LATE = 0.03
"""Seconds of waiting that tell of such a cell."""


def threads_for_training() -> int:
    """Return the number of torch threads for training: the caller's, but leaving one core for the kernel."""
    return max(1, min(torch.get_num_threads(), (os.cpu_count() or 2) - 1))


def start_training_thread(
    work: Callable[[], None], stop: Callable[[], None], ended: Callable[[float], bool], threads: int
) -> Callable[[], None]:
    """Run `work` in a new thread.

    Args:
        work: Must not raise.
        stop: Asks the work to end soon; called when the interpreter exits.
        ended: Waits so many seconds for its end.
        threads: How many threads torch's operations use there.

    Returns:
        To be called where the thread was left behind: it counts no longer.
    """
    token = object()

    def run() -> None:
        _at_work.add(token, stop, ended)
        # Counts for this thread only.
        torch.set_num_threads(threads)
        try:
            work()
        finally:
            _at_work.remove(token)
            thread_ended()

    threading.Thread(target=run, name="pnne-training", daemon=True).start()
    return lambda: _at_work.remove(token)


def interval_for(late: float) -> float:
    """Return how long a thread may keep Python's lock where another one has waited `late` seconds for it."""
    return _LONG_SWITCH_INTERVAL if late > _LATE else _SWITCH_INTERVAL


@final
class _AtWork:
    """The running trainings of this process; while there are any, Python switches threads more often."""

    def __init__(self) -> None:
        self._lock = fork_safe(threading.Lock())
        self._trainings: dict[object, tuple[Callable[[], None], Callable[[float], bool]]] = {}
        self._usual = sys.getswitchinterval()
        self._over = threading.Event()
        renewed_after_fork(self)

    def renew_after_fork(self) -> None:
        """Forget the training threads in a forked child, which has none."""
        if self._trainings:
            self._trainings.clear()
            sys.setswitchinterval(self._usual)

    def add(self, token: object, stop: Callable[[], None], ended: Callable[[float], bool]) -> None:
        with self._lock:
            if not self._trainings:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(_SWITCH_INTERVAL)
                self._over = threading.Event()
                threading.Thread(target=self._adapt, args=(self._over,), name="pnne-switches", daemon=True).start()
            self._trainings[token] = (stop, ended)

    def remove(self, token: object) -> None:
        with self._lock:
            if self._trainings.pop(token, None) is not None and not self._trainings:
                self._over.set()
                sys.setswitchinterval(self._usual)

    def _adapt(self, over: threading.Event) -> None:
        """Adapt the switch interval: long while a thread keeps the lock for long, else short."""
        asleep = time.monotonic()
        while not over.wait(_LOOK):
            late = time.monotonic() - asleep - _LOOK
            with self._lock:
                if not over.is_set():
                    sys.setswitchinterval(interval_for(late))
            asleep = time.monotonic()

    def end_all(self) -> None:
        """Ask every training to end, and wait some seconds for its running step; a slower daemon is abandoned."""
        with self._lock:
            trainings = list(self._trainings.values())
        for stop, _ in trainings:
            stop()
        for _, ended in trainings:
            ended(_SECONDS_AT_EXIT)


_at_work = _AtWork()
atexit.register(_at_work.end_all)
