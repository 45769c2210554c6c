"""Connects a page's buttons directly with the training's process, because a cell may hold the kernel's GIL.

The page is told an address of this machine with a secret in it. Whoever has it can halt this training, and nothing else.
Beside a cell that keeps Python's lock in C, whoever wants the lock waits for it with others, and does not know for how long.
So whichever thread of the process has it first takes a click: the one that waits for clicks, or the one that trains, which
looks for them between two steps.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Final, Literal, TypeAlias, final, get_args

from pnne_nb.process.fork import renewed_after_fork

if sys.platform == "linux":
    import fcntl

Press: TypeAlias = Literal["pause", "stop"]
"""A button by which pages may halt a training without its kernel."""

_PRESSES: Final[tuple[Press, ...]] = get_args(Press)
_SECONDS: Final = 2
"""For which a request is waited for that somebody has begun."""
_LINGERS: Final = 1.0
"""Seconds for which a closed one answers: a browser that clicks while a training ends would report a broken connection."""
_LONGEST: Final = 1 << 14
"""Bytes of a request, headers and all, that are read."""
_ANSWER: Final = b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_LOOK_EVERY: Final = 0.005
"""Seconds between two looks of a thread that has something else to do."""
_DEFERRING: Final = hasattr(socket, "TCP_DEFER_ACCEPT")
"""Whether a connection can be taken when its first data has come, and not before, as on Linux."""


class _Polled(ctypes.Structure):
    """What C's ``poll`` is asked for: see ``struct pollfd``."""

    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


_F_SETOWN_EX: Final = 15
_F_OWNER_TID: Final = 0
"""Of Linux's ``fcntl.h``; Python has no names for them."""
_C: Final = ctypes.PyDLL(None) if _DEFERRING else None
"""The library of C, called with Python's lock: everything in `select` and `socket` gives it away."""


def nothing() -> None:
    """Do nothing."""


def _let_signal(listener: socket.socket, signal: int, thread: threading.Thread) -> None:
    """Let the system send a signal to `thread` when a connection arrives."""
    owner = struct.pack("ii", _F_OWNER_TID, thread.native_id)
    fcntl.fcntl(listener, _F_SETOWN_EX, owner)
    fcntl.fcntl(listener, fcntl.F_SETSIG, signal)
    fcntl.fcntl(listener, fcntl.F_SETFL, fcntl.fcntl(listener, fcntl.F_GETFL) | os.O_ASYNC)


@final
class DirectButtons:
    """Listens for clicks in a thread until it is closed.

    Args:
        pressed: Called there, or by `look`.
        heard: Called before, as soon as a click may have come: taking it gives Python's lock away.
        signal: Sent to this process, on Linux, when a click comes: nobody needs Python's lock for that. It interrupts no
            system call but those of the thread that listens.

    Attributes:
        address: Where a page sends its requests, with the name of a button behind it.

    Raises:
        OSError: Nobody may listen here.
    """

    def __init__(
        self, pressed: Callable[[Press], None], heard: Callable[[], None] = nothing, signal: int | None = None
    ) -> None:
        self._pressed: Callable[[Press], None] | None = pressed
        self._heard = heard
        self._taking = set[int]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        if _DEFERRING:
            self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, _SECONDS)
        secret = secrets.token_urlsafe(24)
        self._known = {f"/{secret}/{press}".encode(): press for press in _PRESSES}
        self._look_at = 0.0
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}/{secret}"
        renewed_after_fork(self)
        self._thread = threading.Thread(target=self._listen, name="pnne-buttons", daemon=True)
        self._thread.start()
        if signal is not None and sys.platform == "linux":
            _let_signal(self._listener, signal, self._thread)

    @property
    def pending(self) -> bool:
        """Whether a click may have arrived that has no effect yet; never releases Python's lock."""
        if self._taking:
            return True
        # Elsewhere than on Linux, a connection may be there before its request.
        if _C is None:
            return False
        polled = _Polled(self._listener.fileno(), select.POLLIN, 0)
        return bool(_C.poll(ctypes.byref(polled), 1, 0) > 0)

    @property
    def listens(self) -> bool:
        """Whether this process listens at the address."""
        return self._listener.fileno() >= 0

    def join(self, timeout: float) -> None:
        """Wait for the end of the listening thread."""
        self._thread.join(timeout)

    def renew_after_fork(self) -> None:
        """Close in a forked child: the training and its buttons belong to the parent."""
        self._listener.close()

    def close(self) -> None:
        """Stop listening after a moment, for a click in transit; no function is called from now on."""
        self._pressed, self._heard = None, nothing  # and with them the training goes
        if not self.listens:
            return
        # Closing a socket does not wake everywhere who waits for it.
        with suppress(OSError), socket.create_connection(self._listener.getsockname(), timeout=_SECONDS) as bell:
            bell.sendall(b"\n")

    def look(self) -> None:
        """Take a waiting click, if there is one; costs almost nothing, and never waits."""
        now = time.monotonic()
        if now >= self._look_at and self.pending:
            self._look_at = now + _LOOK_EVERY
            self._heard()
            with suppress(OSError):
                self._take()

    def _listen(self) -> None:
        # It may be closed meanwhile, or no connection can be opened any more.
        with self._listener, suppress(OSError, ValueError):
            while self._pressed is not None:
                wait([self._listener])
                self._taking.add(threading.get_ident())
                self._heard()
                self._take()
            until = time.monotonic() + _LINGERS
            while wait([self._listener], max(0.0, until - time.monotonic())):
                self._take()

    def _take(self) -> None:
        here = threading.get_ident()
        try:
            self._taking.add(here)
            connection, _ = self._listener.accept()
            with connection, suppress(OSError):
                self._answer(connection)
        except (BlockingIOError, ConnectionAbortedError):
            # Another thread has taken it, or the page has given up.
            return
        finally:
            self._taking.discard(here)

    def _answer(self, connection: socket.socket) -> None:
        if _DEFERRING:
            request = connection.recv(_LONGEST, socket.MSG_DONTWAIT)
        else:
            connection.settimeout(_SECONDS)
            request = connection.recv(_LONGEST)
        press, pressed = self._press(request), self._pressed
        if press is not None and pressed is not None:
            pressed(press)
        connection.sendall(_ANSWER % (b"404 Not Found" if press is None else b"204 No Content"))

    def _press(self, request: bytes) -> Press | None:
        """Return the button of a request, which every browser sends in one piece."""
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0]
        if method != b"POST":
            return None
        return next((press for known, press in self._known.items() if secrets.compare_digest(known, path)), None)
