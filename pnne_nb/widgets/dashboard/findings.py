"""Lists findings in the control bar: the most probable cause first, each with a picture of its evidence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from pnne_nb.inspector.diagnosis.causes import false_alarms, is_finding, rank
from pnne_nb.protocol.control_messages import EvidenceBar, EvidenceCurve, Notice
from pnne_nb.telemetry.frames import AnomalyFrame
from pnne_nb.telemetry.series import Curves

NOTICES: Final = 5
"""Most findings (the most probable) and most events (the latest) that are shown at once."""
POINTS: Final = 60
"""Most points of a curve in a finding's picture."""
_CURVES: Final[Mapping[str, tuple[str, ...]]] = {
    "divergence": ("loss",),
    "loss-not-decreasing": ("loss",),
    "nan-gradient": ("gradient_norm",),
    "nan-loss": ("loss",),
    "nan-validation": ("val_loss",),
    "not-finite": ("loss",),
    "oscillation": ("loss",),
    "overfitting": ("train_loss", "val_loss"),
    "slow-progress": ("loss",),
    "exploding-gradients": ("gradient_norm",),
    "vanishing-gradients": ("gradient_norm",),
}
"""Series of the history that show a kind of finding without numbers of its own."""


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
        curves = () if frame.evidence else _CURVES.get(frame.kind, ())
        bars = [EvidenceBar(label, value) for label, value in frame.evidence if math.isfinite(value)]
        said = frame.step, frame.message, frame.node, frame.hint, false_alarms(frame.kind)
        self._all.append((frame, Notice(len(self._all), *said, bars, self._drawn(curves, frame.step))))

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
        """Return the findings, the most probable cause first, then the events in their order."""
        left = [(frame, notice) for frame, notice in self._all if notice.number not in self._dismissed]
        causes = sorted((pair for pair in left if is_finding(pair[0].kind)), key=lambda pair: rank(pair[0].kind))
        events = [notice for frame, notice in left if not is_finding(frame.kind)]
        return [*(notice for _, notice in causes[:NOTICES]), *events[-NOTICES:]]

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
