"""What the control bar shows, gathered from frames."""

from __future__ import annotations

import math
from typing import Final, final

import msgspec

from pnne_nb.frames import (
    AnomalyFrame,
    CheckpointFrame,
    CostFrame,
    Frame,
    ProgressFrame,
    StateFrame,
    StepFrame,
    TrainingState,
)

NOTICES: Final = 5
"""Findings shown at once; the latest win."""

ENDED: Final = frozenset({"finished", "stopped", "failed"})

ALIVE: Final = frozenset({"running", "paused"})
"""States of a training that has a thread, and so frames to come."""


class Notice(msgspec.Struct, frozen=True, rename="camel"):
    """A finding: where it was made, what it means, what to do."""

    step: int
    message: str
    node: str | None
    hint: str | None


class Saved(msgspec.Struct, frozen=True, rename="camel"):
    """A checkpoint: the last step that it holds, and its file."""

    step: int
    path: str


@final
class Status(msgspec.Struct, rename="camel"):
    """The state of a training as shown; js/src/controls/types.ts mirrors it field by field.

    Attributes:
        waiting: What the running training waits for, in words, or None.
        edited: Whether the graph says something else than what is in training.
        error: Why it failed, or None.
        node: The node that failed, by its path on screen, or None.
        seconds_left: Estimate to the end, in seconds, or None.
        cost: Share of the time that watching the layers takes, 0 to 1, or None before it was measured.
        loss_scale: The factor of scaled gradients (float16), or None without scaling.
        skipped_steps: That left the parameters as they were, because a scaled gradient overflowed.
        saved: The latest checkpoint, or None while there is none.
        dropped: Frames that came too fast to be looked at.
    """

    state: TrainingState = "idle"
    waiting: str | None = None
    edited: bool = False
    error: str | None = None
    node: str | None = None
    epoch: int = 0
    epochs: int = 0
    batch: int = 0
    batches: int | None = None
    step: int = 0
    steps_per_second: float = 0.0
    seconds_left: float | None = None
    learning_rate: float | None = None
    cost: float | None = None
    frames_per_second: float = 0.0
    loss_scale: float | None = None
    skipped_steps: int = 0
    saved: Saved | None = None
    dropped: int = 0
    notices: list[Notice] = []

    def take(self, frame: Frame) -> None:
        """Bring the status up to date with `frame`."""
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
                self.cost, self.frames_per_second = _finite(frame.share), _finite(frame.frames_per_second) or 0.0
            case CheckpointFrame():
                self.saved = Saved(frame.step, frame.path)
            case AnomalyFrame():
                notice = Notice(frame.step, frame.message, frame.node, frame.hint)
                self.notices = [*self.notices, notice][-NOTICES:]
            case _:
                pass

    @property
    def ended(self) -> bool:
        """Whether nothing comes by itself: training no longer runs, or not yet."""
        return self.state not in ALIVE

    def to_json(self) -> dict[str, object]:
        """Plain JSON for the browser."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return plain


def _finite(value: float | None) -> float | None:
    """`value`, or None where JSON has no word for it."""
    return value if value is not None and math.isfinite(value) else None
