"""`ProcessLink`: the kernel's end of its connection to a training process."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
from collections import deque
from multiprocessing.connection import wait
from typing import final

from pnne_nb.runtime.distributed.transport.socket import MessageSocket, encoded
from pnne_nb.runtime.training_process.process_messages import FromKernel, FromProcess
from pnne_nb.runtime.training_process.process_server import Forked, described, kill, server

_GLANCE = 0.5
"""Seconds between two looks at a process that says nothing."""
_SECONDS_TO_DIE = 5.0
_SHORT = 1 << 14
"""Bytes that a socket takes at once, even if nobody reads them."""
_CHUNK = 1 << 20


class GoneError(Exception):
    """The process has ended; the message says why."""


@final
class ProcessLink:
    """Requests a process from the fork server, and exchanges messages with it; `pid` is None until the process has told it.

    Raises:
        TrainingError: There is no server.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._forked: Forked = server.fork()
        self._wire: MessageSocket[FromProcess] = MessageSocket(self._forked.connection, FromProcess)
        self._speaking = threading.RLock()
        self._unsent: deque[bytearray] = deque()
        self._carrier: threading.Thread | None = None
        self._heard_at = time.monotonic()

    def send(self, *messages: FromKernel) -> None:
        """Send messages, from any thread. If the process has ended, `receive` raises the error.

        This never waits for a process that does not read, such as one that is starting or frozen: a thread sends long
        messages, and those that come before they have gone.
        """
        content = encoded(*messages)
        with contextlib.suppress(OSError), self._speaking:
            # An interrupt may have kept the thread from starting: then its messages are still there, and go first.
            at_work = self._carrier is not None and self._carrier.is_alive()
            if not (at_work or self._unsent) and len(content) <= _SHORT:
                self._wire.connection.sendall(content)
                return
            self._unsent.append(content)
            if not at_work:
                self._carrier = threading.Thread(target=self._carry, name="pnne-carrier", daemon=True)
                self._carrier.start()

    def _carry(self) -> None:
        while True:
            with self._speaking:
                if self._carrier is not threading.current_thread():
                    # Another one has been started before this one said that it lives.
                    return
                if not self._unsent:
                    self._carrier = None
                    return
                content = memoryview(self._unsent.popleft())
            with contextlib.suppress(OSError):
                for start in range(0, len(content), _CHUNK):
                    self._wire.connection.sendall(content[start : start + _CHUNK])
                    # Whoever takes it in lives.
                    self.listen_from_now()

    def listen_from_now(self) -> None:
        """Measure the silence of the process from now on."""
        self._heard_at = time.monotonic()

    def receive(self, silence: float) -> list[FromProcess]:
        """Wait a moment for messages, and return them; after so many seconds of `silence`, the process is taken to hang.

        Raises:
            GoneError: The process has died, or hangs and was killed.
        """
        both: list[socket.socket | int] = [self._wire.connection, self._forked.status]
        # Between the end of a wait and this line, a cell may have kept Python's lock for long.
        ready = wait(both, _GLANCE) or wait(both, 0)
        if self._wire.connection in ready:
            messages = self._wire.receive()
            if messages is None:
                raise self._gone()
            self._heard_at = time.monotonic()
            return messages
        # Those that it has started may hold its end of the line open.
        if ready:
            raise self._gone()
        if time.monotonic() - self._heard_at > silence:
            if self.pid is None:
                raise GoneError(server.silent(silence))
            self.kill()
            raise GoneError(f"The training process hangs: no sign of life for {silence:g} seconds. It was killed.")
        return []

    def _gone(self) -> GoneError:
        code = self._forked.exit_code(_SECONDS_TO_DIE)
        if code is None and server.has_ended():
            return GoneError(server.failure())
        memory = " Another program ended it, or the machine ran out of memory." * (code == -signal.SIGKILL)
        words = self._forked.last_words()
        said = f" Python said:\n{words}\n" if words else ""
        return GoneError(f"The training process has died ({described(code)}).{memory}{said}")

    def kill(self) -> None:
        """End the process at once, with those that it has started."""
        if self.pid is not None:
            kill(self.pid)

    def close(self) -> None:
        """Release the process, which ends it."""
        carrier = self._carrier
        with contextlib.suppress(OSError):
            # What is being sent ends there.
            self._wire.connection.shutdown(socket.SHUT_RDWR)
        if carrier is not None and carrier.is_alive():
            carrier.join(_SECONDS_TO_DIE)
        self._wire.close()
        if self.pid is not None and self._forked.exit_code(_SECONDS_TO_DIE) is None:
            self.kill()
        self._forked.close()
