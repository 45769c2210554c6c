"""Imports what takes seconds in the background of a notebook, while somebody still draws."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from pnne_nb.process.fork import fork_safe

SYMBOLIC: Final = "torch._dynamo"
"""What shapes with names, compiling and optimizers import when they are first used; it imports sympy."""
SLOW: Final = (
    "pnne_nb.widgets.editor.editor",
    SYMBOLIC,
    "pnne_nb.widgets.dashboard.dashboard",
    "pnne_nb.widgets.explorer.explorer",
    "pnne_nb.export.exporter",
)
"""What is wanted first comes first."""
_FORKS: Final = "filelock"
"""Part of it that asks to be called at each fork, and lets nobody define a lock before the fork is over."""
_PATIENCE: Final = 60.0
"""Seconds that a fork waits: a module may itself wait for something that whoever forks has."""
_HANDOVER: Final = 0.01
"""Seconds between two modules, in which whoever waits takes `_importing`."""

_importing: Final = fork_safe(threading.RLock())
"""Held for each module: two threads that import parts of a package which need each other may see one half made."""
_threads: Final[list[threading.Thread]] = []
_fork: Final = threading.local()
"""Whether the calling thread, which forks, holds `_importing`."""


def import_in_background() -> None:
    """Begin to import `SLOW` in a thread, once and if this is a notebook: a script does not wait between its lines."""
    if _threads or ipython() is None:
        return
    # Python calls first who registered last: the fork must wait before `_FORKS` makes the import wait for the fork.
    import_module(_FORKS)
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
    _threads.append(threading.Thread(target=_import, name="pnne-import", daemon=True))
    _threads[0].start()


def ipython() -> Any:
    """Return IPython's shell, or None if it does not run, without importing anything."""
    get = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return None if get is None else get()


def wait_for_import() -> None:
    """Have `SYMBOLIC` imported if that was begun in the background."""
    if _threads:
        imported_late(SYMBOLIC)


def imported_late(module: str) -> Any:
    """Return a module; if it is not imported yet, import it while the background imports stop."""
    found = sys.modules.get(module)
    if found is not None and not getattr(found.__spec__, "_initializing", False):
        return found
    with _importing:
        return import_module(module)


def _import() -> None:
    for module in SLOW:
        with suppress(Exception):  # whoever needs it imports it again, and is told
            imported_late(module)
        time.sleep(_HANDOVER)


def _before_fork() -> None:
    # A child would keep a module that is half imported as it is.
    _fork.held = _importing.acquire(timeout=_PATIENCE)


def _after_fork() -> None:
    held, _fork.held = getattr(_fork, "held", False), False  # another thread may have begun in the middle of the fork
    if held:
        _importing.release()
