"""Tells which notebook cell is running, as far as somebody reports it: this room knows no notebook."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import final

from pnne_nb.process.fork import fork_safe
from pnne_nb.process.subscribers import Subscribers


@final
class Cells:
    """The span of the running cell.

    Whoever knows the notebook calls `began` and `ended` in the thread that runs the cell; without such a
    caller no cell is ever open, and ``with engine.paused():`` is the way to have the model to oneself.
    """

    def __init__(self) -> None:
        self._lock = fork_safe(threading.Lock())
        self._thread: int | None = None
        self._depth = 0
        self._at_begin = Subscribers[Callable[[], None]]()
        self._at_end: list[Callable[[], None]] = []
        self._at_interrupt: dict[Callable[[], None], None] = {}

    def began(self) -> None:
        """Note that a cell begins in the calling thread; cells that run other cells nest."""
        with self._lock:
            self._depth += 1
            self._thread = threading.get_ident()
            told = list(self._at_begin) if self._depth == 1 else []
        for function in told:
            function()

    def ended(self, *, interrupted: bool = False) -> None:
        """Note that the cell has ended, whether well or not; without a cell this does nothing.

        Args:
            interrupted: Whether an interrupt has ended it.
        """
        with self._lock:
            self._depth = max(0, self._depth - 1)
            if self._depth:
                return
            self._thread = None
            left = list(self._at_interrupt) if interrupted else []
            told, self._at_end, self._at_interrupt = [*left, *self._at_end], [], {}
        _call_all(told)

    def lost(self) -> None:
        """Note that the end of the running cell, if there is one, will not be told: an interrupt has cut that short."""
        while self._depth:
            self.ended(interrupted=True)

    def open_here(self) -> bool:
        """Return whether the calling thread is running a cell."""
        return self._thread == threading.get_ident()

    def open_elsewhere(self) -> bool:
        """Return whether another thread than the calling one is running a cell."""
        return self._thread not in (None, threading.get_ident())

    def open_in_main(self) -> bool:
        """Return whether the main thread is running a cell."""
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
    """Call each of them, also where an interrupt or an error cuts one short; the first of these is raised then."""
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
