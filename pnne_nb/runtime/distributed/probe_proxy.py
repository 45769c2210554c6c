"""Connects the engine's probes to a group of processes: requests are sent there, frames come back."""

from __future__ import annotations

import time
from itertools import count
from typing import final

from pnne_nb.runtime.distributed.transport.worker_messages import Observed, Order, Orders
from pnne_nb.runtime.monitoring.probes import Observers
from pnne_nb.telemetry.probe import Portable

_LOOK_EVERY = 0.25
"""Seconds between two looks at what the probes want: a dashboard that is scrolled away wants less."""


@final
class Spectators:
    """Represents the probes of an engine towards the group that runs its steps.

    Args:
        observers: The engine's.
    """

    def __init__(self, observers: Observers) -> None:
        self._observers = observers
        self._numbers = count(1)
        self._known: dict[int, Portable] = {}
        self._ordered: list[Order] = []
        self._look_at = 0.0

    def forget(self) -> None:
        """Forget the sent orders, because the group starts or restarts."""
        self._ordered, self._look_at = [], 0.0

    def news(self) -> Orders | None:
        """Return the orders for the group's next step, if they changed."""
        now = time.monotonic()
        if now < self._look_at:
            return None
        self._look_at = now + _LOOK_EVERY
        numbers = {id(probe): number for number, probe in self._known.items()}
        self._known, wanted = {}, []
        for probe, cadence in self._observers.entries:
            if isinstance(probe, Portable):
                number = numbers.get(id(probe)) or next(self._numbers)
                self._known[number] = probe
                wanted.append(Order(number, probe.watch, cadence.hz, cadence.budget))
        if wanted == self._ordered:
            return None
        self._ordered = wanted
        return Orders(wanted)

    def take(self, observed: Observed) -> None:
        """Pass on what was measured."""
        if observed.order is None:
            self._observers.publish(observed.frames)
        elif observed.order in self._known:
            # Otherwise it has left since it gave the order.
            self._observers.publish(self._known[observed.order].take(observed.frames))
