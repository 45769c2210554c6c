"""Holds a running cell back while a training obeys a button.

Torch gives Python's lock away in each operation. Beside a cell that keeps the lock in C, in a long regular expression say,
each of them costs the training one such call of the cell, ten for the rest of a small step. A pending call of Python
runs in the main thread between two instructions of the cell: the cell waits there until the training has halted.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Final

from pnne_nb.runtime.thread.cells import cells

_LONGEST: Final = 5.0
"""Seconds for which a cell is held at most: the training may wait for something that the cell has."""
_LINGERS: Final = 0.1
"""Seconds for which it is held afterwards, in which the page is told."""
_HAVE_LOCKS: Final = ("pnne_nb", "threading", "queue", "logging", "importlib")
"""Modules in whose middle a thread may have a lock that the training needs."""

_waits: deque[Callable[[float], object]] = deque(maxlen=1)


def hold_cell(until: Callable[[float], object]) -> None:
    """Let a cell that runs in the main thread wait before its next instruction; does nothing without such a cell.

    A cell in the middle of this package, or of what may have a lock, is not held.

    Args:
        until: Waits for so many seconds at most.
    """
    if cells.open_in_main() and threading.current_thread() is not threading.main_thread():
        _waits.append(until)
        ctypes.pythonapi.Py_AddPendingCall(_HOLD, None)


def _hold(_: int | None) -> int:
    try:
        if _waits:
            until = _waits.popleft()
            if not _may_have_a_lock(sys._getframe(1)):
                until(_LONGEST)
                time.sleep(_LINGERS)
    except KeyboardInterrupt:
        # Raised from here, it would not reach the cell. This is called once this function is left.
        ctypes.pythonapi.Py_AddPendingCall(
            ctypes.cast(ctypes.pythonapi.PyErr_SetInterruptEx, ctypes.c_void_p), signal.SIGINT
        )
    return 0


def _may_have_a_lock(frame: FrameType | None) -> bool:
    while frame is not None and (name := frame.f_globals.get("__name__", "")) != "__main__":
        if name.partition(".")[0] in _HAVE_LOCKS:
            return True
        frame = frame.f_back
    return False


_HOLD: Final = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_hold)
"""Kept for as long as Python may call it."""
