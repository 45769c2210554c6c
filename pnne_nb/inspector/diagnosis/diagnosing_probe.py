"""A probe that also diagnoses: findings become frames as soon as they are made, each once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from pnne_nb.inspector.capture.live import LiveProbe
from pnne_nb.inspector.diagnosis.evidence import Evidence
from pnne_nb.inspector.diagnosis.rules import RULES, Rule
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
"""Observations between two looks at what has gathered: a look takes about as long as an observation."""

_OF_A_STEP = (NormsFrame, HistogramFrame, StatisticsFrame)


@final
class DiagnosingProbe(Wrapping[LiveProbe]):
    """Observes like the probe that it wraps, and adds an `AnomalyFrame` for every new finding.

    It is a `pnne_nb.telemetry.probe.Probe`; its looks count as observing, so they stay within the budget too. What the losses
    of the steps and the metrics of the epochs show, it finds if it is told them by `hear`.

    Args:
        probe: What measures.
        rules: What to look for.
    """

    def __init__(self, probe: LiveProbe, rules: Sequence[Rule] = RULES) -> None:
        super().__init__(probe)
        self._rules = tuple(rules)
        self._evidence = Evidence.of(probe.model)
        self._observed = 0
        self._step = 0
        self._said: set[tuple[str, str | None]] = set()

    def hear(self, frame: StepFrame | EpochFrame | AnomalyFrame) -> None:
        """Take into account what the training tells, in its thread; what it has told itself is not told again."""
        if isinstance(frame, AnomalyFrame):
            self._said.add((frame.kind, frame.node))
        else:
            self._evidence.add(frame)

    @property
    def watch(self) -> Watch:
        """What the probe measures."""
        return self._probe.watch

    def take(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        """Return the frames of a step, measured here or in another process, and now and then what they mean."""
        if not frames:
            return frames
        for frame in frames:
            self._evidence.add(frame)
        self._step = next((frame.step for frame in frames if isinstance(frame, _OF_A_STEP)), self._step)
        self._observed += 1
        return frames if self._observed % EVERY else [*frames, *self._look()]

    def conclude(self) -> Sequence[Frame]:
        """Look once more at the end of a training: the last observations, or all of a short one, were not looked at."""
        return self._look() if self._observed else []

    def _look(self) -> list[Frame]:
        self._evidence.keep_recent()
        found = [finding for rule in self._rules for finding in rule.find(self._evidence)]
        new = [finding for finding in found if (finding.kind, finding.layer) not in self._said]
        self._said |= {(finding.kind, finding.layer) for finding in new}
        return [finding.frame(self._step) for finding in new]
