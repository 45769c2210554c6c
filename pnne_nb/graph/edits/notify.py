"""Notifies observers of committed transactions, in order."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import final

from pnne_nb.graph.model.node import Transaction
from pnne_nb.process.fork import fork_safe
from pnne_nb.process.subscribers import Subscribers

Observer = Callable[[Transaction], None]

_log = logging.getLogger(__name__)


@final
class Notifications:
    """The observers, and the transactions that are still to be delivered."""

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe
        self._lock = fork_safe(threading.RLock())
        self._observers = Subscribers[Observer]()
        self._pending: deque[Transaction] = deque()
        self._delivering = False

    def __len__(self) -> int:
        """Return the number of observers."""
        return len(self._observers)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` with each transaction; return a function that ends this."""
        end = self._observers.add(observer)

        def unsubscribe() -> None:
            with self._lock:  # not while another thread delivers
                end()

        return unsubscribe

    def add(self, done: Transaction) -> None:
        """Keep `done` for the next `deliver`."""
        self._pending.append(done)

    def deliver(self) -> None:
        """Deliver pending transactions, unless another call is already doing so.

        One thread delivers at a time, so that every observer sees the versions in order.
        """
        with self._lock:
            if self._delivering:
                return
            self._delivering = True
            try:
                while self._pending:
                    done = self._pending.popleft()
                    for observer in self._observers:
                        try:
                            observer(done)
                        except Exception:  # noqa: BLE001  # any error: the change is made, and other observers are waiting
                            _log.exception("An observer of %s failed at version %d", self._describe(), done.version)
            finally:
                self._delivering = False
