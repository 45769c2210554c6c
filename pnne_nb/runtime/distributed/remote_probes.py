"""The probes that the engine has ordered, in a process of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, final

from torch import nn

from pnne_nb.errors import PnneError
from pnne_nb.runtime.distributed.transport.worker_messages import Observed, Orders
from pnne_nb.runtime.monitoring.probes import Observers
from pnne_nb.telemetry.frames import AnomalyFrame, Frame
from pnne_nb.telemetry.probe import Cadence, Probe, Watch, Wrapping

Measure: TypeAlias = Callable[[nn.Module, Watch, Callable[[], float]], Probe]
"""Makes a probe of a model that measures what is asked; the last argument tells the factor of scaled gradients."""


@final
class Ordered:
    """Observes steps by the engine's latest orders, and sends the frames.

    Args:
        measure: Makes the probes.
        tell: Takes what is to be told.

    Attributes:
        observers: Of the loop.
    """

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
