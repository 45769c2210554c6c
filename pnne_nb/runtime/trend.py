"""Notices a loss that grows instead of falling."""

from __future__ import annotations

from typing import final

from pnne_nb.frames import AnomalyFrame

_SMOOTHING = 0.05
_STEPS = 20
"""Steps whose mean is what the training began with."""
_GROWTH = 3.0


@final
class LossTrend:
    """Compares the smoothed loss with its mean over the first steps; says once that it is several times as large."""

    def __init__(self) -> None:
        self._seen = 0
        self._first = 0.0
        self._smoothed = 0.0
        self._said = False

    def observe(self, step: int, loss: float) -> AnomalyFrame | None:
        """Take the loss of `step` into account; tells if it has exploded."""
        if self._seen < _STEPS:
            self._seen += 1
            self._first += (loss - self._first) / self._seen
            self._smoothed = self._first
            return None
        self._smoothed += _SMOOTHING * (loss - self._smoothed)
        if self._smoothed <= _GROWTH * self._first or self._first <= 0:
            self._said = self._said and self._smoothed > self._first
            return None
        if self._said:
            return None
        self._said = True
        message = (
            f"The loss has exploded: about {self._smoothed:.3g} at step {step}, after {self._first:.3g} in the first "
            f"{_STEPS} steps."
        )
        return AnomalyFrame(step, "loss-explosion", message, hint="Try a smaller learning rate, or grad_clip=1.0.")
