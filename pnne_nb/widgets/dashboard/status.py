"""`Status`: the status in the control bar, updated from frames."""

from __future__ import annotations

import math
from typing import final

import msgspec

from pnne_nb.protocol.control_messages import Saved, TrainingStatus
from pnne_nb.telemetry.frames import (
    ALIVE,
    CheckpointFrame,
    CostFrame,
    Frame,
    ProgressFrame,
    StateFrame,
    StepFrame,
)


@final
class Status(TrainingStatus, rename="camel"):
    """The status of a training."""

    def take(self, frame: Frame) -> None:
        """Update the status from `frame`."""
        match frame:
            case StateFrame():
                self.state, self.error, self.node = frame.state, frame.error, frame.node
            case ProgressFrame():
                self.epoch, self.epochs = frame.epoch, frame.epochs
                self.batch, self.batches, self.step = frame.batch, frame.batches, frame.step
                self.steps_per_second = _finite(frame.steps_per_second) or 0.0
                self.seconds_left = _finite(frame.seconds_left)
            case StepFrame():
                self.step, self.epoch = frame.step, frame.epoch
                self.learning_rate, self.loss_scale = _finite(frame.learning_rate), _finite(frame.loss_scale)
            case CostFrame():
                self.cost, self.cost_margin = _finite(frame.share), _finite(frame.margin)
                self.frames_per_second = _finite(frame.frames_per_second) or 0.0
            case CheckpointFrame():
                self.saved = Saved(frame.step, frame.path)
            case _:
                pass

    @property
    def ended(self) -> bool:
        """Whether no training runs, so that no frames will come."""
        return self.state not in ALIVE

    def to_json(self) -> dict[str, object]:
        """Plain JSON for the browser."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


def _finite(value: float | None) -> float | None:
    """Return `value`, or None if JSON cannot express it."""
    return value if value is not None and math.isfinite(value) else None
