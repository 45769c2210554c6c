"""The training thread: a daemon that is given time to end well when the interpreter does."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable

import torch

_SECONDS_AT_EXIT = 5.0
_SWITCH_INTERVAL = 2e-4
"""Seconds: while a cell runs pure Python, a small model trains some ten times faster than with Python's 5 ms."""

_lock = threading.Lock()
_at_work: dict[object, tuple[Callable[[], None], Callable[[float], bool]]] = {}
_usual_interval = sys.getswitchinterval()


def start_training_thread(work: Callable[[], None], stop: Callable[[], None], ended: Callable[[float], bool]) -> None:
    """Run `work` in a thread that leaves one core to the kernel.

    Args:
        work: Must not raise.
        stop: Asks the work to end soon; called when the interpreter exits.
        ended: Waits so many seconds for its end.
    """

    token = object()
    threads = max(1, min(torch.get_num_threads(), (os.cpu_count() or 2) - 1))

    def run() -> None:
        # Counts for this thread only.
        torch.set_num_threads(threads)
        try:
            work()
        finally:
            _left(token)

    _began(token, stop, ended)
    threading.Thread(target=run, name="pnne-training", daemon=True).start()


def _began(token: object, stop: Callable[[], None], ended: Callable[[float], bool]) -> None:
    global _usual_interval
    with _lock:
        if not _at_work:
            _usual_interval = sys.getswitchinterval()
            sys.setswitchinterval(_SWITCH_INTERVAL)
        _at_work[token] = (stop, ended)


def _left(token: object) -> None:
    with _lock:
        _at_work.pop(token, None)
        if not _at_work:
            sys.setswitchinterval(_usual_interval)


@atexit.register
def _end_all() -> None:
    """Ask every training to end and give the running steps some seconds; daemons that need longer are left."""
    with _lock:
        pairs = list(_at_work.values())
    for stop, _ in pairs:
        stop()
    for _, ended in pairs:
        ended(_SECONDS_AT_EXIT)
