"""Tracks the running notebook cell, and holds it back while a training obeys a button.

This room knows no notebook. Torch gives Python's lock away in each operation. Beside a cell that keeps the lock in C, in a
long regular expression say, each of them costs the training one such call of the cell, ten for the rest of a small step. A
signal's handler runs in the main thread between two instructions of the cell: it waits until the training has halted.
"""

from __future__ import annotations

import signal
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable
from types import FrameType
from typing import Final, final

from pnne_nb.process.fork import fork_safe
from pnne_nb.process.subscribers import Subscribers

_LONGEST: Final = 5.0
"""Seconds for which a cell is held at most: the training may wait for something that the cell has."""
_LINGERS: Final = 0.1
"""Seconds for which it is held afterwards, in which the page is told."""
_HAVE_LOCKS: Final = ("pnne_nb", "threading", "queue", "logging", "importlib")
"""Modules in whose middle a thread may have a lock that the training needs."""

HOLD: Final = getattr(signal, "SIGURG", None)
"""The signal: whoever has no handler for it ignores it, and so nobody is harmed by one. Windows has none like it."""


@final
class Cells:
    """The span of the running cell.

    Whoever knows the notebook calls `began` and `ended` in the thread that runs the cell; without such a
    caller no cell is ever open, and ``with engine.paused():`` is the way to have the model to oneself.

    Attributes:
        held_by: Each of them waits, for so many seconds at most, until a training has halted that is asked to, if one is; it
            returns whether none is any longer.
    """

    def __init__(self) -> None:
        self.held_by = Subscribers[Callable[[float], bool]]()
        self._lock = fork_safe(threading.Lock())
        self._thread: int | None = None
        self._depth = 0
        self._at_begin = Subscribers[Callable[[], None]]()
        self._at_end: list[Callable[[], None]] = []
        self._at_interrupt: dict[Callable[[], None], None] = {}

    def began(self) -> None:
        """Record the begin of a cell in the calling thread; cells that run other cells nest."""
        with self._lock:
            self._depth += 1
            self._thread = threading.get_ident()
            told = list(self._at_begin) if self._depth == 1 else []
        if self.open_in_main() and HOLD is not None and signal.getsignal(HOLD) is signal.SIG_DFL:
            signal.signal(HOLD, _hold)
        for function in told:
            function()

    def ended(self, *, interrupted: bool = False) -> None:
        """Record the end of the cell, also after an error or because it was `interrupted`; without a cell this does nothing."""
        with self._lock:
            self._depth = max(0, self._depth - 1)
            if self._depth:
                return
            self._thread = None
            left = list(self._at_interrupt) if interrupted else []
            told, self._at_end, self._at_interrupt = [*left, *self._at_end], [], {}
        _call_all(told)

    def lost(self) -> None:
        """Record that an interrupt prevented the report of the running cell's end."""
        while self._depth:
            self.ended(interrupted=True)

    def open_here(self) -> bool:
        return self._thread == threading.get_ident()

    def open_elsewhere(self) -> bool:
        return self._thread not in (None, threading.get_ident())

    def open_in_main(self) -> bool:
        return self._thread == threading.main_thread().ident

    def at_begin(self, function: Callable[[], None]) -> Callable[[], None]:
        """Call `function` in the cell's thread before each cell; returns the function that ends this."""
        return self._at_begin.add(function)

    def at_end(self, function: Callable[[], None]) -> None:
        """Call `function` once when the running cell ends."""
        with self._lock:
            self._at_end.append(function)

    def at_interrupt(self, function: Callable[[], None]) -> None:
        """Call `function` when the running cell ends by an interrupt; asking for the same again changes nothing."""
        with self._lock:
            self._at_interrupt[function] = None


def _call_all(functions: list[Callable[[], None]]) -> None:
    """Call all functions, also after an interrupt or error in one of them; the first error is raised at the end."""
    failed: BaseException | None = None
    for function in functions:
        try:
            function()
        except BaseException as error:  # noqa: BLE001  what a cell has taken is given back in any case
            failed = failed or error
    if failed is not None:
        raise failed


cells = Cells()
"""The one of this process."""


def hold_cell() -> None:
    """Let a cell in the main thread wait before its next instruction; does nothing without such a cell.

    A cell in the middle of this package, or of what may have a lock, is not held.
    """
    if HOLD is not None and cells.open_in_main() and threading.current_thread() is not threading.main_thread():
        interrupt_main(HOLD)


def _hold(_: int, frame: FrameType | None) -> None:
    if not cells.open_in_main() or _may_have_a_lock(frame):
        return
    waits = [until for until in cells.held_by if not until(0.0)]
    for until in waits:
        until(_LONGEST)
    if waits:
        time.sleep(_LINGERS)


def _may_have_a_lock(frame: FrameType | None) -> bool:
    while frame is not None and (name := frame.f_globals.get("__name__", "")) != "__main__":
        if name.partition(".")[0] in _HAVE_LOCKS:
            return True
        frame = frame.f_back
    return False
