"""Messages over a local socket: the length in four bytes, then MessagePack, which keeps NaN and infinity."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, Generic, TypeVar, final

import msgspec

Message = TypeVar("Message")

_LENGTH = 4
_CHUNK = 1 << 16


@final
class Wire(Generic[Message]):
    """One end of a connection.

    Args:
        connection: Belongs to the wire from now on.
        kind: Type of the messages that come in.
    """

    def __init__(self, connection: socket.socket, kind: Any) -> None:
        self.connection = connection
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(kind)
        self._buffer = bytearray()

    def send(self, message: object) -> None:
        """Send one message.

        Raises:
            OSError: The other end is gone.
        """
        payload = msgspec.msgpack.encode(message)
        self.connection.sendall(len(payload).to_bytes(_LENGTH, "big") + payload)

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
        while len(self._buffer) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self._buffer[:_LENGTH], "big")
            if len(self._buffer) < end:
                return
            yield self._decoder.decode(bytes(self._buffer[_LENGTH:end]))
            del self._buffer[:end]

    def close(self) -> None:
        """End the connection."""
        self.connection.close()
