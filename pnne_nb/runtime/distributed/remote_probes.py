"""Probes of steps that other processes make: the engine's end sends orders and takes frames, the other end measures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeAlias, final

from torch import nn

from pnne_nb.errors import PnneError
from pnne_nb.runtime.distributed.transport.worker_messages import Observed, Order, Orders
from pnne_nb.runtime.monitoring.probes import Observers
from pnne_nb.telemetry.frames import AnomalyFrame, Frame
from pnne_nb.telemetry.probe import Cadence, Portable, Probe, Watch, Wrapping

Measure: TypeAlias = Callable[[nn.Module, Watch, Callable[[], float]], Probe]
"""Makes a probe of a model that measures what is asked; the last argument tells the factor of scaled gradients."""

_LOOK_EVERY = 0.25
"""Seconds between two looks at what the probes want: a dashboard that is scrolled away wants less."""


@final
class RemoteProbes:
    """Represents the probes of an engine towards the group that runs its steps."""

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


@final
class Ordered:
    """Observes the steps of a loop by the engine's latest orders, with probes that `measure` makes, and tells the frames."""

    def __init__(self, measure: Measure, tell: Callable[[Observed], None]) -> None:
        self.observers = Observers(lambda frames: tell(Observed(None, list(frames))))
        self._measure = measure
        self._tell = tell
        self._removals: list[Callable[[], None]] = []

    def follow(self, orders: Orders, model: nn.Module, gradient_scale: Callable[[], float]) -> None:
        """Replace all probes of `model` by those of these orders."""
        for remove in self._removals:
            remove()
        self._removals = []
        for order in orders.orders:
            try:
                probe = self._measure(model, order.watch, gradient_scale)
            except PnneError as error:
                message = f"What is watched in the notebook cannot be watched in the group: {error}"
                self.observers.publish([AnomalyFrame(0, "probe-failed", message)])
                continue
            tagged = _Tagged(probe, order.number, self._tell)
            self._removals.append(self.observers.add(tagged, Cadence(order.hz, order.budget)))


@final
class _Tagged(Wrapping[Probe]):
    """A probe whose frames are sent to the notebook's probe that ordered it."""

    def __init__(self, probe: Probe, number: int, tell: Callable[[Observed], None]) -> None:
        super().__init__(probe)
        self._number = number
        self._tell = tell

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        self._tell(Observed(self._number, list(frames)))
        return ()
