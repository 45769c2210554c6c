"""Thread-safe lists of subscribers, and weakly bound methods."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, final

from pnne_nb.process.fork import fork_safe

T = TypeVar("T")


@final
class Subscribers(Generic[T]):
    """Subscribers in their order.

    Whoever goes through them sees those that were there at that moment, whatever comes or goes meanwhile.
    """

    def __init__(self) -> None:
        self._lock = fork_safe(threading.Lock())
        # Each has an entry of its own, so that one that is added twice is taken out once.
        self._entries: tuple[tuple[T], ...] = ()

    def add(self, subscriber: T) -> Callable[[], None]:
        """Add a subscriber; return the function that removes it."""
        entry = (subscriber,)
        with self._lock:
            self._entries = (*self._entries, entry)

        def unsubscribe() -> None:
            with self._lock:
                self._entries = tuple(other for other in self._entries if other is not entry)

        return unsubscribe

    def __iter__(self) -> Iterator[T]:
        return (subscriber for (subscriber,) in self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def weakly(method: Callable[..., None]) -> Callable[..., None]:
    """Return a function that calls `method` for as long as its object lives, and does not keep it alive."""
    reference = weakref.WeakMethod(method)

    def call(*arguments: object) -> None:
        target = reference()
        if target is not None:
            target(*arguments)

    return call
