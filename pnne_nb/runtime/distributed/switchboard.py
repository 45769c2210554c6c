"""The engine's ends of the lines to its workers."""

from __future__ import annotations

import contextlib
import selectors
import shutil
import socket
from typing import final

from pnne_nb.runtime.distributed.directories import temporary_directory
from pnne_nb.runtime.distributed.messages import FromEngine, FromWorker, HandedOver, Hello
from pnne_nb.runtime.distributed.wire import Wire


@final
class Line:
    """The line to one worker.

    Attributes:
        hello: How it introduced itself, or None before that.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.wire: Wire[FromWorker] = Wire(connection, FromWorker)
        self.hello: Hello | None = None

    def send(self, message: FromEngine) -> None:
        """Say what to do; a worker that is gone is noticed when its line ends."""
        with contextlib.suppress(OSError):
            self.wire.send(message)


@final
class Switchboard:
    """A socket that workers of this machine and this user reach; closing it ends them.

    Args:
        luggage: What each of them is handed over when it has introduced itself.

    Attributes:
        address: Path of the socket.
        lines: Those that are open.
    """

    def __init__(self, luggage: bytes = b"") -> None:
        self._luggage = HandedOver(luggage)
        # A socket's path must be short, and nobody else may get there.
        self._home = temporary_directory()
        self.address = str(self._home / "line")
        self.lines: list[Line] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.address)
        self._listener.listen()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)

    def receive(self, timeout: float) -> list[tuple[Line, FromWorker | None]]:
        """Wait `timeout` seconds for news; None from a line means that it has ended."""
        news: list[tuple[Line, FromWorker | None]] = []
        for key, _ in self._selector.select(timeout):
            if key.fileobj is self._listener:
                self._open(self._listener.accept()[0])
                continue
            line: Line = key.data
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

    def _open(self, connection: socket.socket) -> None:
        line = Line(connection)
        self.lines.append(line)
        self._selector.register(connection, selectors.EVENT_READ, line)

    def _end(self, line: Line) -> None:
        self._selector.unregister(line.wire.connection)
        line.wire.close()
        self.lines.remove(line)

    def close(self) -> None:
        """End every line and with it every worker."""
        for line in list(self.lines):
            self._end(line)
        self._selector.close()
        self._listener.close()
        shutil.rmtree(self._home, ignore_errors=True)
