"""Processes that load data: how they start, and what is said when one dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any, final

from torch.utils.data import get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from pnne_nb.errors import TrainingError

_SECONDS_TO_DIE = 0.5
"""What a worker sent last may arrive broken before the system knows that it is dead."""


@final
class WorkerStart:
    """Keeps a kernel interrupt from killing a worker, and the worker from outliving whoever started it.

    Then does what the given loader wanted.
    """

    def __init__(self, then: Callable[[int], None] | None) -> None:
        self._then = then

    def __call__(self, worker: int) -> None:
        if get_worker_info() is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            threading.Thread(target=_end_with_parent, name="pnne-parent", daemon=True).start()
        if self._then is not None:
            self._then(worker)


def _end_with_parent() -> None:
    """End this process when the one that has started it is gone.

    Torch's workers look now and then whether their parent's number has changed; where the parent dies while the worker
    starts, it has changed before the first look. The pipe that multiprocessing keeps between the two tells of any death.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def explained(batches: Iterator[Any]) -> Iterator[Any]:
    """The same batches; if a worker process dies, its death is told, not the broken connection that it leaves.

    Raises:
        TrainingError: A worker has died.
    """
    if not isinstance(batches, _MultiProcessingDataLoaderIter):
        return batches
    return _watched(batches)


def _watched(batches: _MultiProcessingDataLoaderIter) -> Iterator[Any]:
    try:
        yield from batches
    except (OSError, EOFError, RuntimeError) as error:
        codes = _exit_codes(batches._workers)
        if not codes:
            raise
        raise TrainingError(
            f"A worker process that loads the data has died ({_said(codes[0])}). If the machine ran out of memory, "
            "use fewer workers or smaller batches; num_workers=0 shows an error in the dataset where it happens."
        ) from error


def _exit_codes(workers: Sequence[BaseProcess]) -> list[int]:
    """Of those that have died badly, or are about to."""
    dying = wait([worker.sentinel for worker in workers], _SECONDS_TO_DIE)
    for worker in workers:
        if worker.sentinel in dying:
            # Its files are closed already, its connections among them; the rest of its end may take a while.
            worker.join()
    return [worker.exitcode for worker in workers if worker.exitcode]


def _said(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
