"""Attaches an inspector to a training: its probe looks for what is wrong, and it hears of the training's events."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, final, runtime_checkable

from torch import nn

from pnne_nb.diagnosis.evidence import Evidence
from pnne_nb.diagnosis.finding import Rule, found_by
from pnne_nb.diagnosis.rules import RULES
from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.telemetry.frames import (
    AnomalyFrame,
    EpochFrame,
    Frame,
    HistogramFrame,
    NormsFrame,
    StatisticsFrame,
    StepFrame,
)
from pnne_nb.telemetry.probe import Cadence, Probe, Watch, Wrapping

EVERY: Final = 10
"""Observations between two diagnoses; a diagnosis takes about as long as an observation."""

_OF_A_STEP = (NormsFrame, HistogramFrame, StatisticsFrame)


@final
class DiagnosingProbe(Wrapping[LiveProbe]):
    """Observes like the probe that it wraps, and adds an `AnomalyFrame` for every new finding.

    It is a `pnne_nb.telemetry.probe.Probe`; the time of its diagnoses counts against the budget. The rules about losses
    and metrics need the frames given to `hear`.
    """

    def __init__(self, probe: LiveProbe, rules: Sequence[Rule] = RULES) -> None:
        super().__init__(probe)
        self._rules = tuple(rules)
        self._evidence = Evidence.of(probe.model)
        self._observed = 0
        self._step = 0
        self._said: set[tuple[str, str | None]] = set()

    def hear(self, frame: StepFrame | EpochFrame | AnomalyFrame) -> None:
        """Record a frame of the training, in its thread; findings among these frames are not published again."""
        if isinstance(frame, AnomalyFrame):
            self._said.add((frame.kind, frame.node))
        else:
            self._evidence.add(frame)

    @property
    def watch(self) -> Watch:
        """What the probe measures."""
        return self._probe.watch

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Return the frames of a step, measured here or in another process, and new findings every few steps."""
        if not frames:
            return frames
        for frame in frames:
            self._evidence.add(frame)
        self._step = next((frame.step for frame in frames if isinstance(frame, _OF_A_STEP)), self._step)
        self._observed += 1
        return frames if self._observed % EVERY else [*frames, *self._look()]

    def conclude(self) -> Sequence[Frame]:
        """Diagnose once more at the end of a training, which includes the last observations."""
        return self._look() if self._observed else []

    def _look(self) -> list[Frame]:
        self._evidence.keep_recent()
        found = found_by(self._rules, self._evidence)
        new = [finding for finding in found if (finding.kind, finding.layer) not in self._said]
        self._said |= {(finding.kind, finding.layer) for finding in new}
        return [finding.frame(self._step) for finding in new]


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
