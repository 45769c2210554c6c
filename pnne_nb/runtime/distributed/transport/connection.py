"""Sends messages over a local socket: the length in eight bytes, then MessagePack, which keeps NaN and infinity.

A worker has its end in a `Lifeline`, which ends it together with its starter.

The standard library's `multiprocessing.connection.Connection` frames messages too, but its ``recv_bytes`` waits for the
end of a message that has begun, and its ``poll`` is true at the first byte. A process that is stopped in the middle of
sending weights would then stop the kernel's thread as well, past every deadline, and Listener's handshake (``authkey``)
waits in the same way for a client that says nothing. Here `Wire.receive` takes what has come and returns. Only its
``wait`` is used, which, unlike ``select.select``, also takes file descriptors above 1023. No other user reaches the sockets:
they are pairs that a process inherits, or lie in a directory of this user's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from multiprocessing.connection import wait
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, final

import msgspec
import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own

from pnne_nb.process.fork import fork_safe
from pnne_nb.runtime.distributed.transport import worker_messages

Message = TypeVar("Message")

_LENGTH = 8
_CHUNK = 1 << 18


def encoded(*messages: object) -> bytearray:
    """Messages as they are sent."""
    content = bytearray()
    for message in messages:
        payload = msgspec.msgpack.encode(message)
        content += len(payload).to_bytes(_LENGTH, "big")
        content += payload
    return content


@final
class MessageSocket(Generic[Message]):
    """One end of a connection, which belongs to it from now on; the messages that come in are of the type `kind`."""

    def __init__(self, connection: socket.socket, kind: Any) -> None:
        self.connection = connection
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(kind)
        self._buffer = bytearray()

    def send(self, *messages: object) -> None:
        """Send messages, one or more at once.

        Raises:
            OSError: The other end is gone.
        """
        self.connection.sendall(encoded(*messages))

    def receive(self) -> list[Message] | None:
        """Wait until something comes; returns the messages that are complete by then, or None at the end."""
        try:
            received = self.connection.recv(_CHUNK)
        except OSError:
            return None
        if not received:
            return None
        self._buffer += received
        return list(self._complete())

    def _complete(self) -> Iterator[Message]:
        start = 0
        while len(self._buffer) >= (begin := start + _LENGTH):
            end = begin + int.from_bytes(self._buffer[start:begin], "big")
            if len(self._buffer) < end:
                break
            yield self._decoder.decode(bytes(self._buffer[begin:end]))
            start = end
        # At once: of many short messages, each would move all that are behind it.
        del self._buffer[:start]

    def close(self) -> None:
        self.connection.close()


ADDRESS = "PNNE_LIFELINE"
"""Environment variable with the path of the engine's socket; a group that somebody started by hand has none."""


def find_launcher(run: str) -> psutil.Process:
    """Return the torchrun that started this process for the directory `run`; end the process if it is gone already."""
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(os.getppid())
        if run in parent.cmdline():
            return parent
    sys.exit(f"No torchrun for {run} has started this process, or it is gone.")


@final
class Lifeline:
    """A worker's connection to the engine, whose socket is at `address`.

    When it ends, it ends the `launcher`, which is torchrun, so that no worker is restarted, and the worker.
    """

    def __init__(self, address: str, launcher: psutil.Process) -> None:
        self._launcher = launcher
        self._heard: SimpleQueue[worker_messages.FromEngine] = SimpleQueue()
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(address)
        except OSError:
            self._end()
        self._wire: MessageSocket[worker_messages.FromEngine] = MessageSocket(connection, worker_messages.FromEngine)
        self._speaking = fork_safe(threading.Lock())
        # The main thread may be in a call that never returns, where no handler of Python's would run.
        self._alarm, rings = socket.socketpair()
        rings.setblocking(False)
        signal.signal(signal.SIGTERM, lambda *_: None)
        signal.set_wakeup_fd(rings.detach())
        threading.Thread(target=self._listen, name="pnne-lifeline", daemon=True).start()

    def tell(self, message: worker_messages.FromWorker) -> None:
        """Send a message to the engine."""
        try:
            with self._speaking:
                self._wire.send(message)
        except OSError:
            self._end()

    def hear(self) -> worker_messages.Verdict | worker_messages.Orders:
        """Wait for a message of the engine."""
        heard = self._heard.get()
        assert not isinstance(heard, worker_messages.HandedOver)
        return heard

    def receive(self) -> bytes:
        """Wait for the objects that the engine hands over after the greeting."""
        heard = self._heard.get()
        assert isinstance(heard, worker_messages.HandedOver)
        return heard.luggage

    def _listen(self) -> None:
        while True:
            ready = wait([self._wire.connection, self._alarm])
            if self._alarm in ready and signal.SIGTERM in self._alarm.recv(16):
                self.tell(worker_messages.Dismissed())
                os._exit(1)
            if self._wire.connection in ready:
                heard = self._wire.receive()
                if heard is None:
                    self._end()
                for message in heard or ():
                    self._heard.put(message)

    def _end(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            self._launcher.kill()
        os._exit(1)
