"""Connects a page's buttons directly with a training's own process, because a cell may keep the kernel busy.

The page is told an address of this machine with a secret in it. Whoever has it can halt this training, and nothing else.
"""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, TypeAlias, final, get_args

Press: TypeAlias = Literal["pause", "stop"]
"""A button by which pages may halt a training without its kernel."""

_PRESSES: Final[tuple[Press, ...]] = get_args(Press)
_SECONDS: Final = 2
"""How long the rest of a request may take that has begun to arrive."""
_LONGEST: Final = 1 << 14
"""Bytes of a request, headers and all, that are read."""
_ANSWER: Final = b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@final
class DirectButtons:
    """Listens for clicks in a thread, to the end of the process or until it is closed.

    Attributes:
        address: Where a page sends its requests, with the name of a button behind it.

    Raises:
        OSError: Nobody may listen here.
    """

    def __init__(self, pressed: Callable[[Press], None]) -> None:
        self._pressed = pressed
        self._is_closed = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        secret = secrets.token_urlsafe(24)
        self._known = {f"/{secret}/{press}".encode(): press for press in _PRESSES}
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}/{secret}"
        self._thread = threading.Thread(target=self._listen, name="pnne-buttons", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and wait for the end of the thread."""
        self._is_closed = True
        # Closing a socket does not wake everywhere who waits for it.
        with suppress(OSError):
            socket.create_connection(self._listener.getsockname(), timeout=_SECONDS).close()
        self._thread.join()

    def _listen(self) -> None:
        with self._listener:
            while not self._is_closed:
                with suppress(OSError):
                    connection, _ = self._listener.accept()
                    with connection:
                        self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(_SECONDS)
        press = self._press(connection.recv(_LONGEST))
        if press is not None and not self._is_closed:
            self._pressed(press)
        connection.sendall(_ANSWER % (b"404 Not Found" if press is None else b"204 No Content"))

    def _press(self, request: bytes) -> Press | None:
        """Return the button of a request, which every browser sends in one piece."""
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0]
        if method != b"POST":
            return None
        return next((press for known, press in self._known.items() if secrets.compare_digest(known, path)), None)
