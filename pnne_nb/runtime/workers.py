"""Processes that load data: how they start, and what is said when one dies."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from typing import Any, final

from torch.utils.data import get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from pnne_nb.errors import TrainingError

_SECONDS_TO_DIE = 0.5
"""What a worker sent last may arrive broken before the system knows that it is dead."""


@final
class WorkerStart:
    """Keeps a kernel interrupt from killing workers, then does what the given loader wanted."""

    def __init__(self, then: Callable[[int], None] | None) -> None:
        self._then = then

    def __call__(self, worker: int) -> None:
        if get_worker_info() is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._then is not None:
            self._then(worker)


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
        wait([worker.sentinel for worker in batches._workers], _SECONDS_TO_DIE)
        codes = [worker.exitcode for worker in batches._workers if worker.exitcode]
        if not codes:
            raise
        raise TrainingError(
            f"A worker process that loads the data has died ({_said(codes[0])}). If the machine ran out of memory, "
            "use fewer workers or smaller batches; num_workers=0 shows an error in the dataset where it happens."
        ) from error


def _said(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
