"""Attaches an inspector to a training: adds its probe and listens to the training's events."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from torch import nn

from pnne_nb.inspector.capture.diagnosing_probe import DiagnosingProbe
from pnne_nb.telemetry.probe import Cadence, Probe


@runtime_checkable
class ObservableEngine(Protocol):
    """A training that probes can observe, such as ``TrainingEngine``."""

    @property
    def module(self) -> nn.Module:
        """The module that is trained."""

    @property
    def gradient_scale(self) -> float:
        """The factor that gradients have inside a backward pass; 1 without a scaler."""

    def add_probe(self, probe: Probe, cadence: Cadence | None = None) -> Callable[[], None]:
        """Observe steps; returns the function that ends it."""

    def on(self, event: str, function: Callable[[Any], object]) -> Callable[[], None]:
        """Call `function` with the frame at each ``"step"``, ``"epoch"`` or ``"anomaly"``; returns how to end it."""

    def paused(self) -> AbstractContextManager[object]:
        """Hold the training between two steps."""


_attached: weakref.WeakKeyDictionary[ObservableEngine, dict[Hashable, Callable[[], None]]] = weakref.WeakKeyDictionary()
"""Functions that detach, by training and by what is watched. No value may hold a reference to the training."""


def attach(engine: ObservableEngine, probe: DiagnosingProbe, cadence: Cadence, key: Hashable) -> Callable[[], bool]:
    """Let `probe` observe `engine` and receive its events, in place of a probe that was attached with the same `key`.

    Returns:
        A function that detaches, and returns whether the probe was still attached.
    """
    attached = _attached.setdefault(engine, {})
    if key in attached:
        attached.pop(key)()
    removals = [
        *(engine.on(event, probe.hear) for event in ("step", "epoch", "anomaly")),
        engine.add_probe(probe, cadence),
    ]

    def remove() -> None:
        for removal in removals:
            removal()

    def detach() -> bool:
        remove()
        return attached.get(key) is remove and attached.pop(key) is remove

    attached[key] = remove
    return detach


def scale_of(engine: ObservableEngine) -> Callable[[], float]:
    """Return a function that gives the training's gradient scale, without a strong reference to the training."""
    training = weakref.ref(engine)

    def scale() -> float:
        alive = training()
        return 1.0 if alive is None else alive.gradient_scale

    return scale
