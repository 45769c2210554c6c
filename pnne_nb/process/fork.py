"""Repairs locks and thread-owning objects in forked children.

A child has one thread, a copy of the one that forked. A lock that any other thread held at that moment is held for
ever in the child, and what such a thread was doing is never finished.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Protocol, TypeVar


class RenewedInFork(Protocol):
    """An object that must be repaired in a forked child."""

    def renew_after_fork(self) -> None:
        """Repair the object; called in the child when every lock is free and nothing else runs yet."""


L = TypeVar("L")
R = TypeVar("R", bound=RenewedInFork)

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_renewables: weakref.WeakSet[Any] = weakref.WeakSet()


def fork_safe(lock: L) -> L:
    """Register a ``Lock``, ``RLock`` or ``Condition``: in a forked child it is free, unless the child's thread has it.

    Of a plain ``Lock`` nobody knows who holds it: do not fork while holding one.
    """
    _locks.add(lock)
    return lock


def renewed_after_fork(renewable: R) -> R:
    """Register an object whose `renew_after_fork` is called in a forked child for as long as the object exists."""
    _renewables.add(renewable)
    return renewable


def _renew_in_child() -> None:
    for lock in list(_locks):
        if isinstance(lock, threading.Condition):
            # Threads that waited here are gone; its lock is renewed as a lock.
            lock._waiters.clear()  # type: ignore[attr-defined]  # private to threading: renewed in a forked child
            _free(lock._lock)  # type: ignore[attr-defined]  # private to threading: renewed in a forked child
        else:
            _free(lock)
    for renewable in list(_renewables):
        renewable.renew_after_fork()


def _free(lock: Any) -> None:
    owned = getattr(lock, "_is_owned", None)  # a plain lock has no owner
    if owned is None or not owned():
        lock._at_fork_reinit()


os.register_at_fork(after_in_child=_renew_in_child)
