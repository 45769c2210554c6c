"""Detects a growing loss, and exploding or vanishing gradients."""

from __future__ import annotations

import math
from typing import final

from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, StepFrame

_SMOOTHING = 0.05
_STEPS = 20
"""Steps whose mean is what the training began with."""
_GROWTH = 3.0
_START_EXAMPLES = 8
"""The loss of fewer may be near zero by chance."""
_FAR = 10.0
_FAR_STEPS = 10
_GRADIENT_GROWTH = 1000.0
_VANISHED = 1e-6
"""Share of the norm that the gradients began with."""
_STILL_WRONG = 0.1
"""Share of the loss at the beginning: below it, small gradients are what a trained model has."""


@final
class _Level:
    """A smoothed quantity, compared with its mean over the first steps."""

    def __init__(self) -> None:
        self.first = 0.0
        self.smoothed = 0.0
        self._seen = 0

    def observe(self, value: float) -> None:
        """Take one value into account."""
        if self._seen < _STEPS:
            self._seen += 1
            self.first += (value - self.first) / self._seen
            self.smoothed = self.first
        else:
            self.smoothed += _SMOOTHING * (value - self.smoothed)

    @property
    def known(self) -> bool:
        """Whether the first steps are over."""
        return self._seen == _STEPS


@final
class _Start:
    """The loss of the untrained model, because even the first update may ruin the model."""

    def __init__(self) -> None:
        self.loss = 0.0
        self._examples = 0
        self._above = 0

    def observe(self, loss: float, examples: int) -> bool:
        """Take one step into account; tells whether the loss has been far above the start for some steps in a row."""
        if self._examples < _START_EXAMPLES:
            self._examples += examples
            self.loss += (loss - self.loss) * examples / max(1, self._examples)
        self._above = self._above + 1 if loss > _FAR * self.loss > 0 else 0
        return self._above >= _FAR_STEPS


@final
class LossTrend:
    """Compares the loss with its start; reports once that it stays several times as large."""

    def __init__(self) -> None:
        self.level = _Level()
        self.said = False
        self._start = _Start()

    def observe(self, step: int, loss: float, examples: int) -> AnomalyFrame | None:
        """Take the loss of `step` into account; tells if it has exploded."""
        level = self.level
        level.observe(loss)
        if self._start.observe(loss, examples):
            what = f"about {loss:.3g} at step {step}, after {self._start.loss:.3g} at first."
        elif level.known and level.smoothed > _GROWTH * level.first > 0:
            what = f"about {level.smoothed:.3g} at step {step}, after {level.first:.3g} in the first {_STEPS} steps."
        else:
            if self.said:
                # The first steps may have been those of an explosion themselves.
                usual = min(level.first, self._start.loss) if self._start.loss > 0 else level.first
                self.said = level.smoothed > usual
            return None
        if self.said:
            return None
        self.said = True
        hint = "Try a smaller learning rate, or grad_clip=1.0."
        return AnomalyFrame(step, "divergence", f"The loss has exploded: {what}", hint=hint)


@final
class GradientTrend:
    """Compares the norm of all gradients with its start; reports exploding and vanishing once each."""

    def __init__(self) -> None:
        self.said: set[str] = set()
        self._level = _Level()

    def observe(self, step: int, norm: float, *, learned: bool) -> AnomalyFrame | None:
        """Take the norm of `step` into account; `learned` excuses small gradients."""
        level = self._level
        level.observe(norm)
        if not level.known:
            return None
        if level.smoothed > _GRADIENT_GROWTH * level.first > 0:
            return self._once(
                "exploding-gradients",
                step,
                f"The gradients have exploded: their norm is about {level.smoothed:.3g} at step {step}, after "
                f"{level.first:.3g} at first.",
                "Try grad_clip=1.0, a smaller learning rate, or normalisation between the layers.",
            )
        if level.smoothed <= _VANISHED * level.first and not learned:
            return self._once(
                "vanishing-gradients",
                step,
                f"The gradients have vanished: their norm is about {level.smoothed:.3g} at step {step}, after "
                f"{level.first:.3g} at first, and the loss has not fallen: nothing more is learned.",
                "Look for dead ReLUs and saturated activations, and try a smaller learning rate or another "
                "initialisation.",
            )
        return None

    def _once(self, kind: str, step: int, message: str, hint: str) -> AnomalyFrame | None:
        if kind in self.said:
            return None
        self.said.add(kind)
        return AnomalyFrame(step, kind, message, hint=hint)


@final
class Trends:
    """The anomalies that the losses and gradient norms of the steps show."""

    def __init__(self) -> None:
        self._loss = LossTrend()
        self._gradients = GradientTrend()
        self._judged = True

    def hear(self, frame: AnomalyFrame) -> None:
        """Record a finding of a probe, so that it is not reported again."""
        self._loss.said |= frame.kind == "divergence"
        self._gradients.said.add(frame.kind)

    def judge(self, frame: EpochFrame) -> AnomalyFrame | None:
        """Record a validation; report a non-finite loss once, until it is finite again."""
        loss = frame.metrics.get("val_loss")
        if loss is None:
            return None
        before, self._judged = self._judged, math.isfinite(loss)
        if self._judged or not before:
            return None
        message = f"The validation loss after step {frame.step} is {loss}: it cannot be compared with others."
        hint = (
            "Look for NaN in the validation data, and in the running statistics of batch normalisation, which nothing else "
            "uses."
        )
        return AnomalyFrame(frame.step, "nan-validation", message, hint=hint)

    def observe(self, frame: StepFrame) -> list[AnomalyFrame]:
        """Take a step into account."""
        told = self._loss.observe(frame.step, frame.loss, frame.examples)
        found = [] if told is None else [told]
        # What a scaled gradient overflows to says nothing about the true one.
        if frame.gradient_norm is not None and not frame.skipped:
            level = self._loss.level
            learned = level.smoothed < _STILL_WRONG * level.first
            told = self._gradients.observe(frame.step, frame.gradient_norm, learned=learned)
            if told is not None:
                found.append(told)
        return found
