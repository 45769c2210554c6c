"""Worker processes that load data, and calls into data: how they start, end, and are left where they hang."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from typing import Any, final

from torch._C import _remove_worker_pids
from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from pnne_nb.errors import TrainingError
from pnne_nb.process.fork import fork_safe

_SECONDS_TO_DIE = 0.5
"""What a worker sent last may arrive broken before the system knows that it is dead."""
_GLANCE = 0.5
"""Seconds between two looks whether workers live. Torch takes five, but a kernel that shuts down, which ends its children
first, is given half of that to write its last checkpoint."""
_REPEATED = "in DataLoader worker process"
"""What torch says of an exception that a worker has sent."""
_NO_ROOM = "unable to allocate shared memory"
_MORE_ROOM = (
    "The shared memory of this machine (/dev/shm), through which workers hand their batches over, is too small: give the "
    "container more (docker run --shm-size=2g), or use fewer workers or smaller batches; num_workers=0 needs none."
)


class WorkerDiedError(TrainingError):
    """A process that loads the data is gone."""


@final
class WorkerStart:
    """Protects a worker from kernel interrupts, and ends it with its parent process.

    Then does what the given loader wanted.
    """

    def __init__(self, then: Callable[[int], None] | None) -> None:
        self._then = then

    def __call__(self, worker: int) -> None:
        if get_worker_info() is not None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            # Multiprocessing would print what cannot be sent, and the parent would wait for it for ever.
            setattr(Queue, "_on_queue_feeder_error", _send_instead)  # noqa: B010  a type checker knows of no such method
            threading.Thread(target=_end_with_parent, name="pnne-parent", daemon=True).start()
        if self._then is not None:
            self._then(worker)


def _end_with_parent() -> None:
    """End this process when its parent has ended.

    Torch's workers look now and then whether their parent's number has changed; where the parent dies while the worker
    starts, it has changed before the first look. The pipe that multiprocessing keeps between the two tells of any death.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@final
class _Unsent(ExceptionWrapper):
    """A worker's substitute for a batch or an exception that cannot be pickled."""

    def __init__(self, message: str) -> None:
        self._message = message

    def reraise(self) -> None:
        """Raise the worker's error; torch calls this in the waiting process."""
        raise TrainingError(self._message)


def _send_instead(queue: Queue[Any], error: Exception, unsent: tuple[Any, Any]) -> None:
    number, content = unsent
    if isinstance(content, ExceptionWrapper):
        # Told as torch tells of one that can be sent.
        message = f"Caught {content.exc_type.__name__} {content.where}.\nOriginal {content.exc_msg}"
    else:
        message = (
            f"A worker process cannot hand a batch over: {type(error).__name__}: {error}. Let the dataset, or collate_fn, "
            "return tensors, numbers and text, or use num_workers=0."
        )
    queue.put((number, _Unsent(message)))


def explained(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the batches; report a worker's death as such instead of a broken connection.

    Raises:
        WorkerDiedError: A worker has died.
        TrainingError: A worker has no room for a batch.
    """
    if not isinstance(batches, _MultiProcessingDataLoaderIter):
        return batches
    if batches._worker_pids_set:
        # Torch would raise the death of a worker in the main thread, under whatever cell runs there.
        _remove_worker_pids(id(batches))
        batches._worker_pids_set = False
    own = weakref.proxy(batches)

    def look(timeout: float = _GLANCE) -> Any:
        return _MultiProcessingDataLoaderIter._try_get_data(own, timeout)  # type: ignore[no-untyped-call]  # torch does not say

    batches._try_get_data = look  # type: ignore[method-assign]  # torch has no setting for it
    return _watched(batches)


def end_workers(batches: Iterator[Any] | None) -> None:
    """End the workers of one pass over a loader, if it has any."""
    if isinstance(batches, _MultiProcessingDataLoaderIter):
        batches._shutdown_workers()


def dismiss_workers(batches: Iterator[Any] | None, *, at_once: bool) -> None:
    """End the workers of one pass over a loader; `at_once` kills those that do not end when they are asked to."""
    if isinstance(batches, _MultiProcessingDataLoaderIter):
        for worker in batches._workers:
            if at_once:
                worker.kill()
            else:
                # Of this signal, they make a quiet end: of SIGKILL, torch would tell the cell that runs.
                worker.terminate()


def _watched(batches: _MultiProcessingDataLoaderIter) -> Iterator[Any]:
    try:
        yield from batches
    except (OSError, EOFError, RuntimeError) as error:
        if _NO_ROOM in str(error):
            raise TrainingError(_MORE_ROOM) from error
        codes = [] if _REPEATED in str(error) else _exit_codes(batches._workers)
        if not codes:
            raise
        raise WorkerDiedError(f"A worker process that loads the data has died {_said(codes[0])}") from error


def _exit_codes(workers: Sequence[BaseProcess]) -> list[int]:
    """Return the exit codes of workers that have died or are about to, failures first."""
    dying = wait([worker.sentinel for worker in workers], _SECONDS_TO_DIE)
    for worker in workers:
        if worker.sentinel in dying:
            # Its files are closed already, its connections among them; the rest of its end may take a while.
            worker.join()
    codes = [worker.exitcode for worker in workers if worker.exitcode is not None]
    return sorted(codes, key=lambda code: code == 0)


def _said(code: int) -> str:
    if code == 0:
        return "(exit code 0). Something in the dataset has ended it, such as sys.exit() or a KeyboardInterrupt."
    if code == -signal.SIGBUS:
        return f"(killed by SIGBUS). {_MORE_ROOM}"
    how = f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
    return (
        f"({how}). If the machine ran out of memory, use fewer workers or smaller batches; num_workers=0 shows an error "
        "in the dataset where it happens."
    )


@final
class DataCalls:
    """A block around each call into the data; another thread can leave the caller there for good."""

    def __init__(self) -> None:
        self._lock = fork_safe(threading.Lock())
        self._inside = False

    def __enter__(self) -> None:
        self._inside = True

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside = False

    def leave(self) -> bool:
        """Keep the caller from ever coming back, if it is in such a block; return whether it is.

        Everything else is then as before that call, and the process can end.
        """
        self._lock.acquire()
        if not self._inside:
            self._lock.release()
        return self._inside
