"""Tracks the running notebook cell. This room knows no notebook: whoever does calls `began` and `ended`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import final

from pnne_nb.process.subscribers import Subscribers


@final
class Cells:
    """The span of the running cell.

    `began` and `ended` are called in the thread that runs the cell; without such a caller no cell is ever open, and
    ``with engine.paused():`` is the way to have the model to oneself.
    """

    def __init__(self) -> None:
        self._thread: int | None = None
        self._depth = 0
        self._at_begin = Subscribers[Callable[[], None]]()
        self._at_end: list[Callable[[], None]] = []
        self._at_interrupt: dict[Callable[[], None], None] = {}

    def began(self) -> None:
        """Record the begin of a cell in the calling thread; cells that run other cells nest."""
        self._depth += 1
        self._thread = threading.get_ident()
        for function in self._at_begin if self._depth == 1 else ():
            function()

    def ended(self, *, interrupted: bool = False) -> None:
        """Record the end of the cell, also after an error or because it was `interrupted`; without a cell this does nothing."""
        self._depth = max(0, self._depth - 1)
        if self._depth:
            return
        self._thread = None
        left, self._at_interrupt = self._at_interrupt, {}
        told = list(left) if interrupted else []
        while self._at_end:  # which another thread may add to meanwhile
            told.append(self._at_end.pop(0))
        _call_all(told)

    def lost(self) -> None:
        """Record that an interrupt prevented the report of the running cell's end."""
        while self._depth:
            self.ended(interrupted=True)

    @property
    def open(self) -> bool:
        return self._thread is not None

    def open_here(self) -> bool:
        return self._thread == threading.get_ident()

    def open_elsewhere(self) -> bool:
        return self._thread not in (None, threading.get_ident())

    def at_begin(self, function: Callable[[], None]) -> Callable[[], None]:
        """Call `function` in the cell's thread before each cell; returns the function that ends this."""
        return self._at_begin.add(function)

    def at_end(self, function: Callable[[], None]) -> None:
        """Call `function` once when the running cell ends."""
        self._at_end.append(function)

    def at_interrupt(self, function: Callable[[], None]) -> None:
        """Call `function` when the running cell ends by an interrupt; asking for the same again changes nothing."""
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
