"""The progress of a training: speed, remaining time, and a line of text."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final, Self, TextIO, final

from pnne_nb.process.progress_line import EVERY, FIRST, ProgressLine, bar
from pnne_nb.telemetry.frames import ProgressFrame

_FRAME_EVERY: Final = 0.1
"""Seconds between two progress frames."""
_SMOOTHED_OVER: Final = 3.0
"""Seconds over which the speed is smoothed."""
_STANDS: Final = 0.05
"""Steps a second under which no speed is said: something else is waited for, and how long is not known."""


@final
class Progress:
    """Measures the speed of a training with so many batches in an epoch, or None, and `accumulate` of them in a step."""

    def __init__(self, batches: int | None, accumulate: int) -> None:
        self._batches = batches
        self._accumulate = accumulate
        self._speed = 0.0
        self._looked: tuple[float, int] | None = None

    def due(self, now: float, steps: int) -> bool:
        """Return whether it is time for another frame at `now` (seconds, monotonic); takes the speed if so."""
        if self._looked is None:
            self._looked = (now, steps)
            return True
        elapsed = now - self._looked[0]
        if elapsed < _FRAME_EVERY:
            return False
        speed = (steps - self._looked[1]) / elapsed
        weight = 1.0 if self._speed == 0.0 else 1.0 - math.exp(-elapsed / _SMOOTHED_OVER)
        self._speed += weight * (speed - self._speed)
        self._looked = (now, steps)
        return True

    def rest(self) -> None:
        """Exclude the time until the training continues."""
        self._looked = None

    def frame(self, epoch: int, epochs: int, batch: int, steps: int) -> ProgressFrame:
        """Return a progress frame; `epoch` from 1, `epochs` 0 if not known, `batch` the number of its finished batches."""
        left = None
        if epochs and self._batches is not None and self._speed > 0:
            batches = max(0, (epochs - epoch + 1) * self._batches - batch)
            left = batches / self._accumulate / self._speed
        if epoch > epochs > 0:
            epoch, batch = epochs, self._batches or batch
        return ProgressFrame(epoch, epochs, batch, self._batches, steps, self._speed, left)


@final
class ProgressBar:
    """Rewrites one line of text on `stream`, and leaves the last one in a terminal; shows the latest loss after a step."""

    def __init__(self, stream: TextIO, progress: Callable[[], ProgressFrame], loss: Callable[[], float]) -> None:
        self._line = ProgressLine(stream)
        self._progress = progress
        self._loss = loss
        self._written = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._written:
            self._write()
            self._line.keep()

    def while_waiting(self, wait: Callable[[float | None], bool], timeout: float | None) -> bool:
        """Call `wait` with short timeouts until it returns True or `timeout` seconds are over; return its last result."""
        end = float("inf") if timeout is None else time.monotonic() + timeout
        look = FIRST
        while not wait(min(look, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end:
                return False
            self._write()
            look = EVERY
        return True

    def _write(self) -> None:
        self._written = True
        self._line.write(line(self._progress(), self._loss))


def line(progress: ProgressFrame, loss: Callable[[], float]) -> str:
    """Return the line to write: ``"epoch 2/5 [######      ] 25%, step 120, 40.1/s, loss 0.31, 0:12 left"``."""
    epoch = min(progress.epoch, progress.epochs)
    parts = [f"epoch {epoch}/{progress.epochs}"]
    if progress.batches:
        done = ((progress.epoch - 1) + progress.batch / progress.batches) / max(1, progress.epochs)
        parts[0] += f" {bar(done)}"
    parts.append(f"step {progress.step}")
    moves = progress.steps_per_second >= _STANDS
    if moves:
        parts.append(f"{progress.steps_per_second:.1f}/s")
    if progress.step:
        parts.append(f"loss {loss():.4g}")
    if progress.seconds_left and moves:
        minutes, seconds = divmod(round(progress.seconds_left), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    return ", ".join(parts)
