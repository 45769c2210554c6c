"""Finds why a group failed: the first process that reported an error, or one that died silently."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from torch import OutOfMemoryError

from pnne_nb import errors
from pnne_nb.errors import PnneError, TrainingError
from pnne_nb.runtime.distributed.transport.worker_messages import Broke, Dismissed, FromWorker
from pnne_nb.runtime.distributed.transport.worker_server import WorkerLine, WorkerServer
from pnne_nb.runtime.loop.fault_replay import NotFiniteError

_COMPLAINTS = 10.0
"""Seconds to wait for what the other processes say about a failure, or do not say."""
_SLICE = 0.2

_CUT_OFF = frozenset({"RuntimeError", "DistBackendError", "DistNetworkError"})
"""What torch raises when the connection to another process is gone."""


def hear(
    board: WorkerServer, inbox: deque[tuple[WorkerLine, FromWorker | None]], silent: set[WorkerLine], first: Broke
) -> list[Broke] | WorkerLine:
    """Collect the error reports of all processes after the `first` one, from the `inbox` and from those that are still `silent`.

    Returns:
        All complaints; or the line of a process that has died without a word, which is what the others complain about.
    """
    said = [first]
    deadline = time.monotonic() + _COMPLAINTS
    while silent and time.monotonic() < deadline:
        news = list(inbox) or board.receive(_SLICE)
        inbox.clear()
        for line, message in news:
            match message:
                case Broke() | Dismissed():
                    silent.discard(line)
                    said += [message] if isinstance(message, Broke) else []
                case None if line in silent:
                    return line
                case _:
                    pass
    return said


def is_cut_off(complaint: Broke) -> bool:
    """Return whether a process of another machine may be the cause."""
    return complaint.kind in _CUT_OFF


def cause(said: Sequence[Broke]) -> Broke:
    """Return the first of several error reports, or a more detailed one of the same error."""
    same = [broke for broke in said if broke.kind == said[0].kind]
    return max(same, key=lambda broke: (broke.found, any(found.node for found in broke.diagnostics)))


def as_error(broke: Broke) -> PnneError:
    """Return the error to raise in the notebook."""
    known = NotFiniteError if broke.kind == NotFiniteError.__name__ else getattr(errors, broke.kind, None)
    if isinstance(known, type) and issubclass(known, PnneError):
        error: PnneError = known(broke.message, broke.diagnostics)
    else:
        failed = f"Process {broke.rank} of the group failed while {broke.doing}: {broke.message}"
        if broke.kind == OutOfMemoryError.__name__:
            failed += (
                " After the forward pass, the others cannot be told to take smaller pieces: give a smaller batch_size, "
                "with accumulate for the same step, or bf16."
            )
        error = TrainingError(failed)
    error.add_note(f"In process {broke.rank} of the group, while {broke.doing}. Original {broke.trace}")
    return error
