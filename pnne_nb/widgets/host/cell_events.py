"""Tells the runtime when a notebook cell begins and ends, so that a cell that uses the live model parks training."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from asyncio import CancelledError
from types import SimpleNamespace
from typing import Any

from IPython import get_ipython

from pnne_nb.runtime.thread.cells import cells

_open = SimpleNamespace(request=None)
"""The request of the running or the last cell; cells that this cell runs itself have the same request."""

_told: list[Any] = []
"""The shells with registered callbacks; one, unless a test makes more."""


def watch_cells(shell: Any | None = None) -> bool:
    """Register callbacks in IPython that tell the runtime about cells; a second call changes nothing.

    Args:
        shell: An IPython shell; None for the running one.

    Returns:
        Whether there is a shell.
    """
    shell = get_ipython() if shell is None else shell
    if shell is None:
        return False
    if shell not in _told:
        _told.append(shell)
        shell.events.register("pre_run_cell", _began)
        shell.events.register("post_run_cell", _ended)
        if _runs_a_cell(shell):
            # This cell began before the registration.
            _open.request = _request(shell)
            cells.began()
    return True


def forget_cells(shell: Any) -> None:
    """Undo `watch_cells`."""
    if shell in _told:
        _told.remove(shell)
        shell.events.unregister("pre_run_cell", _began)
        shell.events.unregister("post_run_cell", _ended)


def _began(_info: object) -> None:
    try:
        request = _request(get_ipython())
        if request != _open.request:
            # An interrupt may have come just when the end of the cell before was to be told.
            cells.lost()
        _open.request = request
        cells.began()
    except KeyboardInterrupt:
        # IPython would print the error and run the cell nevertheless.
        again = threading.Timer(_MOMENT, _interrupt)
        again.name, again.daemon = "pnne-interrupt", True
        again.start()


_MOMENT = 0.05
"""Seconds after which a cell has begun."""


def _interrupt() -> None:
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        # A signal also ends a wait in C; Python's own call is noticed only after the wait.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def _ended(result: Any) -> None:
    error = getattr(result, "error_in_exec", None)
    cells.ended(interrupted=isinstance(error, KeyboardInterrupt | CancelledError))


def _request(shell: Any) -> object:
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return parent.get("header", {}).get("msg_id")


def _runs_a_cell(shell: Any) -> bool:
    """Return whether the calling thread runs a cell whose end IPython reports (not so for a silent request)."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(shell, "get_parent"):
        return False
    parent = shell.get_parent()
    return parent.get("msg_type") == "execute_request" and not parent.get("content", {}).get("silent", False)
