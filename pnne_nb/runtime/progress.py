"""How fast training goes, and when it will be done."""

from __future__ import annotations

import math
from typing import final

from pnne_nb.frames import ProgressFrame

_EVERY = 0.1
"""Seconds between two progress frames."""
_MEMORY = 3.0
"""Seconds over which the speed is smoothed."""


@final
class Progress:
    """Measures speed at each look.

    Args:
        batches: Batches in an epoch, or None.
        accumulate: Batches in an optimizer step.
    """

    def __init__(self, batches: int | None, accumulate: int) -> None:
        self._batches = batches
        self._accumulate = accumulate
        self._speed = 0.0
        self._looked: tuple[float, int] | None = None

    def due(self, now: float, steps: int) -> bool:
        """Whether it is time for another frame at `now` (seconds, monotonic); takes the speed if so."""
        if self._looked is None:
            self._looked = (now, steps)
            return True
        elapsed = now - self._looked[0]
        if elapsed < _EVERY:
            return False
        speed = (steps - self._looked[1]) / elapsed
        weight = 1.0 if self._speed == 0.0 else 1.0 - math.exp(-elapsed / _MEMORY)
        self._speed += weight * (speed - self._speed)
        self._looked = (now, steps)
        return True

    def rest(self) -> None:
        """Training halts: the time until it goes on counts for nothing."""
        self._looked = None

    def frame(self, epoch: int, epochs: int, batch: int, steps: int) -> ProgressFrame:
        """Where training is; `epoch` from 1 and `batch` as done in it."""
        left = None
        if self._batches is not None and self._speed > 0:
            batches = max(0, (epochs - epoch + 1) * self._batches - batch)
            left = batches / self._accumulate / self._speed
        if epoch > epochs:
            epoch, batch = epochs, self._batches or batch
        return ProgressFrame(epoch, epochs, batch, self._batches, steps, self._speed, left)
