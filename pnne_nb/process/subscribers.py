"""Thread-safe lists of subscribers, and weakly bound methods."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, final

T = TypeVar("T")


@final
class Subscribers(Generic[T]):
    """Subscribers in their order.

    Whoever goes through them sees those that were there at that moment, whatever comes or goes meanwhile.
    """

    def __init__(self) -> None:
        # By a key of its own each, so that one that is added twice is taken out once; every use is one operation in C.
        self._entries: dict[object, T] = {}

    def add(self, subscriber: T) -> Callable[[], None]:
        """Add a subscriber; return the function that removes it."""
        key = object()
        self._entries[key] = subscriber

        def unsubscribe() -> None:
            self._entries.pop(key, None)

        return unsubscribe

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._entries.values()))

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
