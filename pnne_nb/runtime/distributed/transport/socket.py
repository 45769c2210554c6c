"""Sends messages over a local socket: the length in eight bytes, then MessagePack, which keeps NaN and infinity.

The standard library's `multiprocessing.connection.Connection` frames messages too, but its ``recv_bytes`` waits for the
end of a message that has begun, and its ``poll`` is true at the first byte. A process that is stopped in the middle of
sending weights would then stop the kernel's thread as well, past every deadline, and Listener's handshake (``authkey``)
waits in the same way for a client that says nothing. Here `Wire.receive` takes what has come and returns. Only its
``wait`` is used, which, unlike ``select.select``, also takes file descriptors above 1023. No other user reaches the sockets:
they are pairs that a process inherits, or lie in a directory of this user's.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, Generic, TypeVar, final

import msgspec

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
