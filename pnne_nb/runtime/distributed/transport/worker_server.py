"""Holds the engine's ends of the connections to its workers."""

from __future__ import annotations

import contextlib
import shutil
import socket
from multiprocessing.connection import wait
from typing import cast, final

from pnne_nb.runtime.distributed.transport.scratch import temporary_directory
from pnne_nb.runtime.distributed.transport.socket import MessageSocket
from pnne_nb.runtime.distributed.transport.worker_messages import FromEngine, FromWorker, HandedOver, Hello


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
