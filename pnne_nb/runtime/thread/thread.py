"""The training thread: a daemon that gets time to end properly at the interpreter's exit."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable

import torch

from pnne_nb.runtime.thread.step_lock import OF_A_STEP

_SECONDS_AT_EXIT = 10.0
"""A step that is still running then is cut off, before Python 3.14 with an abort. A server that shuts a kernel down
waits five seconds and kills it, so nobody there waits longer for this."""


def threads_for_training() -> int:
    """Return the number of torch threads for training: the caller's, but leaving one core for the kernel."""
    return max(1, min(torch.get_num_threads(), (os.cpu_count() or 2) - 1))


def start_training_thread(
    work: Callable[[], None], stop: Callable[[], None], ended: Callable[[float], bool], threads: int
) -> None:
    """Run `work` in a new thread.

    Args:
        work: Must not raise.
        stop: Asks the work to end soon; called when the interpreter exits.
        ended: Waits so many seconds for its end.
        threads: How many threads torch's operations use there.
    """

    def run() -> None:
        here = threading.get_ident()
        _at_work[here] = stop, ended
        # Counts for this thread only.
        torch.set_num_threads(threads)
        try:
            work()
        finally:
            del _at_work[here]

    threading.Thread(target=run, name="pnne-training", daemon=OF_A_STEP).start()


_at_work: dict[int, tuple[Callable[[], None], Callable[[float], bool]]] = {}
"""What asks the training of each thread to end, and waits for that."""
os.register_at_fork(after_in_child=_at_work.clear)


def _end_all() -> None:
    """Ask every training to end, and wait some seconds for its running step; a slower daemon is abandoned."""
    trainings = list(_at_work.values())
    for stop, _ in trainings:
        stop()
    for _, ended in trainings:
        ended(_SECONDS_AT_EXIT)


atexit.register(_end_all)
