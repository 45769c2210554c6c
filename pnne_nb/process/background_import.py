"""Begins imports that take seconds before somebody waits for them."""

from __future__ import annotations

import logging
import os
import sys
import threading
from importlib import import_module
from typing import Final

from pnne_nb.process.fork import fork_safe

SYMBOLIC: Final = "torch._dynamo"
"""What shapes with names, compiling and optimizers import when they are first used; it imports sympy."""

_log: Final = logging.getLogger(__name__)
_starting: Final = fork_safe(threading.Lock())
_importing: Final = threading.RLock()
"""Held for each module, and by a fork: a child would keep a module that is half imported as it is."""
_turn: Final = threading.Lock()
"""Taken before `_importing`. A fork holds it meanwhile: else the next module would have that lock before whoever waits."""
_asked: Final[dict[str, threading.Event]] = {}
"""Each module that was asked for, and whether it is there, or cannot be."""
_waiting: Final[list[str]] = []
_thread: list[threading.Thread] = []


def import_in_background(*modules: str) -> None:
    """Import modules one after the other in a thread, each once, if this is a notebook; whoever imports one waits for it.

    A script does not wait between its lines, and would only share its time with the thread. One thread for all of them,
    because two that import parts of a package which need each other may see one half made.

    Args:
        modules: Names; those that somebody waits for longest come first.
    """
    if not in_notebook():
        return
    with _starting:
        new = [module for module in modules if module not in sys.modules and module not in _asked]
        _asked.update((module, threading.Event()) for module in new)
        _waiting.extend(new)
        if _waiting and not _thread:
            _thread.append(threading.Thread(target=_import, name="pnne-import", daemon=True))
            _thread[0].start()


def in_notebook() -> bool:
    """Return whether this process is a kernel, or IPython in a terminal: it looks, and imports nothing."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get is not None and get() is not None


def wait_for_import(module: str = SYMBOLIC) -> None:
    """Return when a module is there, or cannot be, if it was asked for: others that are to come are not waited for."""
    asked = _asked.get(module)
    if asked is not None and threading.current_thread() not in _thread:
        asked.wait()


def wait_for_imports() -> None:
    """Return when nothing that was asked for is still to come."""
    for thread in _thread:
        if thread is not threading.current_thread():
            thread.join()


def _import() -> None:
    while True:
        with _starting:
            if not _waiting:
                _thread.clear()
                return
            module = _waiting.pop(0)
        with _turn:
            _importing.acquire()
        try:
            import_module(module)
        except Exception:  # noqa: BLE001  # whoever needs it imports it again, and is told
            _log.debug("%s cannot be imported beforehand", module, exc_info=True)
        finally:
            _importing.release()
        _asked[module].set()


def _hold_for_fork() -> None:
    # A module that forks while it is imported has its turn already.
    if threading.current_thread() not in _thread:
        _turn.acquire()
    _importing.acquire()


def _go_on_after_fork() -> None:
    _importing.release()
    if threading.current_thread() not in _thread:
        _turn.release()


def _forget_in_child() -> None:
    """Forget the thread that imports, which a forked child lacks: waiting threads go on, and imports can be requested again."""
    _go_on_after_fork()
    _thread.clear()
    _waiting.clear()
    for module in [module for module, there in _asked.items() if not there.is_set()]:
        _asked.pop(module).set()


# A fork waits for the module that is being imported, and not for those behind it.
os.register_at_fork(before=_hold_for_fork, after_in_parent=_go_on_after_fork, after_in_child=_forget_in_child)
