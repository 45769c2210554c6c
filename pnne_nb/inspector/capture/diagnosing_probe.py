"""A probe that also diagnoses a training, and publishes each finding once as a frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

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
from pnne_nb.telemetry.probe import Watch, Wrapping

EVERY: Final = 10
"""Observations between two diagnoses; a diagnosis takes about as long as an observation."""

_OF_A_STEP = (NormsFrame, HistogramFrame, StatisticsFrame)


@final
class DiagnosingProbe(Wrapping[LiveProbe]):
    """Observes like the probe that it wraps, and adds an `AnomalyFrame` for every new finding.

    It is a `pnne_nb.telemetry.probe.Probe`; the time of its diagnoses counts against the budget. The rules about losses
    and metrics need the frames given to `hear`.

    Args:
        probe: The probe that measures.
        rules: The rules to apply.
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
