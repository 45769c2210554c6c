"""Lists findings in the control bar: the most probable cause first, each with a picture of its evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from pnne_nb.diagnosis.finding import Finding, ranked
from pnne_nb.diagnosis.kinds import curves, false_alarms, is_finding
from pnne_nb.protocol.control_messages import EvidenceBar, EvidenceCurve, Notice
from pnne_nb.telemetry.frames import AnomalyFrame
from pnne_nb.telemetry.series import Curves

NOTICES: Final = 5
"""Most findings (the most probable) and most events (the latest) that are shown at once."""
POINTS: Final = 60
"""Most points of a curve in a finding's picture."""


@final
class Findings:
    """The findings of a training, and which of them were dismissed.

    Args:
        history: The history with the curves for the pictures.
    """

    def __init__(self, history: Curves) -> None:
        self._history = history
        self._all: list[tuple[AnomalyFrame, Notice]] = []
        self._dismissed: set[int] = set()

    def take(self, frame: AnomalyFrame) -> None:
        """Add a finding, or an event."""
        drawn = () if frame.evidence else curves(frame.kind)
        bars = [EvidenceBar(label, value) for label, value in frame.evidence if math.isfinite(value)]
        said = frame.step, frame.message, frame.node, frame.hint, false_alarms(frame.kind)
        self._all.append((frame, Notice(len(self._all), *said, bars, self._drawn(drawn, frame.step))))

    def dismiss(self, number: int | None) -> None:
        """Hide a finding; with None, show all of them again."""
        if number is None:
            self._dismissed.clear()
        else:
            self._dismissed.add(number)

    @property
    def dismissed(self) -> int:
        """Number of dismissed findings."""
        return len(self._dismissed)

    def shown(self) -> list[Notice]:
        """Return the findings as ``pn.diagnose`` ranks them, then the events in their order."""
        left = [(frame, notice) for frame, notice in self._all if notice.number not in self._dismissed]
        causes: dict[Finding, Notice] = {}
        for frame, notice in left:
            if is_finding(frame.kind):
                causes.setdefault(Finding.of(frame), notice)
        events = [notice for frame, notice in left if not is_finding(frame.kind)]
        return [*(causes[finding] for finding in ranked(causes)[:NOTICES]), *events[-NOTICES:]]

    def _drawn(self, names: Iterable[str], step: int) -> list[EvidenceCurve]:
        drawn = []
        for name in names:
            if name in self._history:
                steps, values = self._history.points(name)
                values = values[: int(np.searchsorted(steps, step, side="right"))]
                if len(values) > 1:
                    drawn.append(EvidenceCurve(name.replace("_", " "), _thinned(values)))
        return drawn


def _thinned(values: NDArray[np.float64]) -> list[float | None]:
    """Return at most `POINTS` means of neighbouring values; None where none is finite."""
    parts = np.array_split(values, min(POINTS, len(values)))
    means = [float(part[np.isfinite(part)].mean()) if np.isfinite(part).any() else math.inf for part in parts]
    return [mean if math.isfinite(mean) else None for mean in means]
