"""Imports `SLOW` in the background of a notebook, while somebody still draws."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

SLOW: Final = "torch._dynamo"
"""What shapes with names, compiling and optimizers import when they are first used. It takes seconds."""
_FORKS: Final = "filelock"
"""Part of it that asks to be called at each fork, and lets nobody define a lock before the fork is over."""
_PATIENCE: Final = 60.0
"""Seconds that a fork waits for the import."""
_threads: Final[list[threading.Thread]] = []


def import_in_background() -> None:
    """Begin to import `SLOW` in a thread, once and if this is a notebook: a script does not wait between its lines."""
    if _threads or SLOW in sys.modules or ipython() is None:
        return
    # Python calls first who registered last: the fork must wait before `_FORKS` makes the import wait for the fork.
    import_module(_FORKS)
    os.register_at_fork(before=_wait_before_fork)
    thread = threading.Thread(target=_import, name="pnne-import", daemon=True)
    thread.start()
    _threads.append(thread)


def ipython() -> Any:
    """Return IPython's shell, or None if it does not run, without importing anything."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def wait_for_import(seconds: float | None = None) -> None:
    """Wait until the import has ended: two threads that import parts of torch may see one half made."""
    for thread in _threads:
        if thread is not threading.current_thread():
            thread.join(seconds)


def imported_late(module: str) -> Any:
    """Return a module; if it is not imported yet, import it after what is imported in the background."""
    found = sys.modules.get(module)
    if found is not None and not getattr(found.__spec__, "_initializing", False):
        return found
    wait_for_import()
    return import_module(module)


def _import() -> None:
    with suppress(Exception):  # whoever needs it imports it again, and is told
        import_module(SLOW)


def _wait_before_fork() -> None:
    # A child would keep a module that is half imported as it is.
    wait_for_import(_PATIENCE)
