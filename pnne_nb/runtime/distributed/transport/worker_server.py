"""The engine's ends of the connections to its workers, and why they failed: who reported an error first, or died silently."""

from __future__ import annotations

import contextlib
import shutil
import socket
import time
from collections import deque
from collections.abc import Sequence
from multiprocessing.connection import wait
from typing import cast, final

from torch import OutOfMemoryError

from pnne_nb import errors
from pnne_nb.errors import PnneError, TrainingError
from pnne_nb.runtime.distributed.transport.connection import MessageSocket
from pnne_nb.runtime.distributed.transport.scratch import temporary_directory
from pnne_nb.runtime.distributed.transport.worker_messages import (
    Broke,
    Dismissed,
    FromEngine,
    FromWorker,
    HandedOver,
    Hello,
)
from pnne_nb.runtime.loop.fault_replay import NotFiniteError


@final
class WorkerLine:
    """The line to one worker, with its `hello`, which is None before it introduced itself."""

    def __init__(self, connection: socket.socket) -> None:
        self.wire: MessageSocket[FromWorker] = MessageSocket(connection, FromWorker)
        self.hello: Hello | None = None

    def send(self, message: FromEngine) -> None:
        """Send a verdict; the death of a worker shows when its connection ends."""
        with contextlib.suppress(OSError):
            self.wire.send(message)


@final
class WorkerServer:
    """A socket that workers of this machine and this user reach; closing it ends them.

    Each of them is handed the `luggage` when it has introduced itself.

    Attributes:
        address: Path of the socket.
        lines: Those that are open.
    """

    def __init__(self, luggage: bytes = b"") -> None:
        self._luggage = HandedOver(luggage)
        # A socket's path must be short, and nobody else may get there.
        self._home = temporary_directory()
        self.address = str(self._home / "line")
        self.lines: list[WorkerLine] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen()

    def receive(self, timeout: float) -> list[tuple[WorkerLine, FromWorker | None]]:
        """Wait `timeout` seconds for messages; None from a line means that it has ended."""
        news: list[tuple[WorkerLine, FromWorker | None]] = []
        by_socket = {line.wire.connection: line for line in self.lines}
        for ready in wait([self._listener, *by_socket], timeout):
            if ready is self._listener:
                self.lines.append(WorkerLine(self._listener.accept()[0]))
                continue
            line = by_socket[cast("socket.socket", ready)]
            messages = line.wire.receive()
            if messages is None:
                self._end(line)
                # Whoever dies without a word explains what the others complain about.
                news.insert(0, (line, None))
                continue
            for message in messages:
                if isinstance(message, Hello):
                    line.hello = message
                    line.send(self._luggage)
                news.append((line, message))
        return news

    def _end(self, line: WorkerLine) -> None:
        line.wire.close()
        self.lines.remove(line)

    def close(self) -> None:
        """End every line and with it every worker."""
        for line in list(self.lines):
            self._end(line)
        self._listener.close()
        shutil.rmtree(self._home, ignore_errors=True)


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
