"""Starts slow imports in the background before they are needed."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any, Final

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
_here: Final = threading.local()
"""Whether the calling thread imports alone (`imports`), and whether, as it forks, it has both locks: by itself (`waits`), or
since Python has begun to (`held`)."""
_PATIENCE: Final = 60.0
"""Seconds that a fork waits: a module may itself wait for something that whoever forks has."""
_FORKS: Final = ("fork", "forkpty")
_replaced: Final[dict[str, tuple[Callable[[], Any], Callable[[], Any]]]] = {}
"""What stands for each of them while there is something to import, and what it was."""


def import_in_background(*modules: str) -> None:
    """Import modules one after the other in a thread, each once, if this is a notebook; whoever imports one waits for it.

    A script does not wait between its lines, and would only share its time with the thread. One thread for all of them,
    because two that import parts of a package which need each other may see one half made.

    Args:
        modules: Names; those that somebody waits for longest come first.
    """
    if ipython() is None:
        return
    with _starting:
        new = [module for module in modules if module not in sys.modules and module not in _asked]
        _asked.update((module, threading.Event()) for module in new)
        _waiting.extend(new)
        if _waiting and not _thread:
            _thread.append(threading.Thread(target=_import, name="pnne-import", daemon=True))
            _wait_in_forks()
            _thread[0].start()


def ipython() -> Any:
    """Return IPython's shell, or None if it does not run, without importing anything."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def wait_for_import(module: str = SYMBOLIC) -> None:
    """Wait until a requested module is imported or has failed; do not wait for others."""
    asked = _asked.get(module)
    if asked is not None and threading.current_thread() not in _thread:
        asked.wait()


def wait_for_imports() -> None:
    """Wait until all requested modules are imported or have failed."""
    for thread in _thread:
        if thread is not threading.current_thread():
            thread.join()


@contextmanager
def importing_alone() -> Iterator[None]:
    """Stop the background imports in this block, after the current one.

    The parts of a package need each other, and two threads that import them may see one half made.
    """
    if threading.current_thread() in _thread or getattr(_here, "imports", False):
        yield
        return
    with _turn:
        _importing.acquire()
    _here.imports = True
    try:
        yield
    finally:
        _here.imports = False
        _importing.release()


def imported_late(module: str) -> Any:
    """Return a module; if it is not imported yet, import it while the background imports stop."""
    found = sys.modules.get(module)
    if found is not None and not getattr(found.__spec__, "_initializing", False):
        return found
    with importing_alone():
        return import_module(module)


def _import() -> None:
    while True:
        with _starting:
            if not _waiting:
                _thread.clear()
                _wait_in_forks_no_longer()
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


# Forks
#
# Python first calls what modules have registered for a fork, the latest first, and none of these may wait: filelock, for
# one, then lets nobody define a lock, and a module that is being imported may be about to. A fork waits before that.


def _wait_in_forks() -> None:
    for name in _FORKS:
        original = getattr(os, name)
        _replaced[name] = _waiting_for_module(original), original
        setattr(os, name, _replaced[name][0])


def _wait_in_forks_no_longer() -> None:
    for name, (own, original) in _replaced.items():
        # Somebody else may have replaced it since.
        if getattr(os, name) is own:
            setattr(os, name, original)
    _replaced.clear()


def _waiting_for_module(fork: Callable[[], Any]) -> Callable[[], Any]:
    @wraps(fork)
    def waiting() -> Any:
        if getattr(_here, "waits", False) or not _hold():
            return fork()
        _here.waits = True
        try:
            return fork()
        finally:
            _here.waits = False
            _let_go()

    return waiting


def _hold() -> bool:
    """Wait for the current background import and hold the next one; return whether there is something to release."""
    # A module that forks while it is imported has its turn already.
    if threading.current_thread() in _thread or not _turn.acquire(timeout=_PATIENCE):
        return False
    held = False
    try:
        held = _importing.acquire(timeout=_PATIENCE)
    finally:
        if not held:
            _turn.release()
    return held


def _let_go() -> None:
    _importing.release()
    _turn.release()


def _before_fork() -> None:
    # One of C, or that somebody has taken from ``os`` before.
    _here.held = not getattr(_here, "waits", False) and _hold()


def _after_fork() -> None:
    held, _here.held = getattr(_here, "held", False), False
    if held:
        _let_go()


def _forget_in_child() -> None:
    """Forget the import thread in a forked child, which has none, so that imports can be requested again."""
    if not (getattr(_here, "waits", False) or _here.held):
        # Nobody can let go of them here.
        locks: tuple[Any, ...] = (_importing, _turn)
        for lock in locks:
            lock._at_fork_reinit()
    _after_fork()
    _thread.clear()
    _waiting.clear()
    _wait_in_forks_no_longer()
    for module in [module for module, there in _asked.items() if not there.is_set()]:
        _asked.pop(module).set()


# A fork waits for the module that is being imported, and not for those behind it.
os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_forget_in_child)
