"""Lets an inspector watch a training: a probe, and a listener to its events."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol, runtime_checkable

from torch import nn

from pnne_nb.inspector.diagnosis.diagnosing_probe import DiagnosingProbe
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
"""What is attached to each training, by what is watched. Nothing in it may hold the training itself."""


def attach(engine: ObservableEngine, probe: DiagnosingProbe, cadence: Cadence, key: Hashable) -> Callable[[], bool]:
    """Let `probe` observe and hear `engine`; one that was attached by the same `key` is detached before.

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
    """Tells the factor that gradients have inside a backward pass, without holding the training."""
    return partial(_scale, weakref.ref(engine))


def _scale(engine: weakref.ref[ObservableEngine]) -> float:
    training = engine()
    return 1.0 if training is None else training.gradient_scale
