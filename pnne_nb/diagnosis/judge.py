"""`Judge`: judges a training while it runs, from records and a few looks at its layers; `diagnose`: afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Protocol, final, runtime_checkable

from torch import nn

from pnne_nb.diagnosis.evidence import Evidence, gather
from pnne_nb.diagnosis.finding import KINDS, Finding, Rule, as_rules, found_by, is_finding, place, ranked
from pnne_nb.diagnosis.layer_rules import NotFinite, UpdateRatio
from pnne_nb.diagnosis.level_rules import EqualUnits, SmallWeights
from pnne_nb.diagnosis.rules import RULES
from pnne_nb.errors import ArgumentError, expect, shown
from pnne_nb.telemetry.frames import AnomalyFrame, BaselineFrame, EpochFrame, Frame, LookFrame, StepFrame

_SMOOTHING = 0.05
_FIRST_STEPS = 20
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
        if self._seen < _FIRST_STEPS:
            self._seen += 1
            self.first += (value - self.first) / self._seen
            self.smoothed = self.first
        else:
            self.smoothed += _SMOOTHING * (value - self.smoothed)

    @property
    def known(self) -> bool:
        """Whether the first steps are over."""
        return self._seen == _FIRST_STEPS


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
            what = (
                f"about {level.smoothed:.3g} at step {step}, after {level.first:.3g} in the first {_FIRST_STEPS} steps."
            )
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


FIRST: Final = 20
"""The step after which the rules are applied for the first time."""
_APART: Final = 1.2
"""Ratio of the steps of two judgements, or of two at the ends of epochs, at least, and..."""
_STEPS: Final = 10
"""...the steps between two of them, at least: a long training is judged rarely, and no step costs much."""
_LOOKED: Final = 10
"""The look before this step shows how the training begins; most rules wait for the next one."""


def watching() -> tuple[Rule, ...]:
    """Return the rules for a training that looks at its layers a few times only, and that a NaN ends, with its cause."""
    return tuple(
        replace(rule, least=1, settled=50) if isinstance(rule, UpdateRatio) else rule
        for rule in RULES
        if not isinstance(rule, NotFinite)
    )


STARTING: Final[tuple[Rule, ...]] = tuple(rule for rule in RULES if isinstance(rule, EqualUnits | SmallWeights))
"""The rules about how weights are drawn, which the first look shows."""


@final
class Judge:
    """Finds what is wrong with a training from the frames that it gets, in the thread that gives them.

    Args:
        rules: What to look for; all rules for trainings if None.

    Attributes:
        evidence: What is known.
    """

    def __init__(self, rules: Iterable[Rule] | None = None) -> None:
        self._given = None if rules is None else tuple(rules)
        self._start(dict)

    @property
    def _rules(self) -> tuple[Rule, ...]:
        return watching() if self._given is None else self._given

    def _start(self, kinds: Callable[[], dict[str, str]]) -> None:
        self.evidence = Evidence(kinds())
        self._trends = Trends()
        self._told: dict[tuple[str, str | None], Finding] = {}
        self._step = 0
        self._due = FIRST
        self._epoch_due = 0

    def watch(self, model: nn.Module) -> None:
        """Take note of the layers of `model`, which is trained from now on."""
        self.evidence.kinds = Evidence.of(model).kinds
        self.evidence.baseline = None  # the loss or the data may be others, too

    def recall(self, frames: Iterable[Frame]) -> None:
        """Begin again with the recorded frames of a training, which goes on from there."""
        kinds, baseline = dict(self.evidence.kinds), self.evidence.baseline
        self._start(lambda: kinds)
        self.evidence.baseline = baseline
        for frame in frames:
            if isinstance(frame, AnomalyFrame):
                self.hear(frame)
            else:
                self.evidence.add(frame)
            if isinstance(frame, StepFrame):
                self._step = frame.step
        self._due = max(FIRST, self._step + _STEPS)

    def hear(self, frame: AnomalyFrame) -> None:
        """Take note of a finding or an event, whoever tells it; a finding is not told again."""
        if frame.hint is not None or is_finding(frame.kind):
            self._told.setdefault(place(frame.kind, frame.node), Finding.of(frame))
        if frame.kind in {"nan-loss", "nan-gradient"}:
            self.evidence.not_finite = frame.step
        self._trends.hear(frame)

    def returns_to(self, step: int) -> bool:
        """Return whether `step` was made before, so that what was recorded since is void."""
        return step <= self._step

    def steps(self, frame: StepFrame) -> list[AnomalyFrame]:
        """Take a step into account; return what is new."""
        self._step = frame.step
        self.evidence.add(frame)
        found = self._trends.observe(frame)
        for one in found:
            self.hear(one)
        if frame.step < self._due:
            return found
        self._due = max(frame.step + _STEPS, int(frame.step * _APART))
        self.evidence.keep_recent()
        return [*found, *self.look()]

    def ends_epoch(self, frame: EpochFrame) -> list[AnomalyFrame]:
        """Take the metrics of an epoch into account; return what is new."""
        self.evidence.add(frame)
        judged = self._trends.judge(frame)
        found = [] if judged is None else [judged]
        if len(self.evidence.epochs) <= 3 or frame.step < self._epoch_due:
            return found
        self._epoch_due = int(frame.step * _APART)
        return [*found, *self.look()]

    def sees(self, frame: Frame) -> list[AnomalyFrame]:
        """Take what was measured beside the losses into account; return what is new."""
        if isinstance(frame, BaselineFrame) and self.evidence.baseline is not None:
            return []  # the first one is of all data
        self.evidence.add(frame)
        self.evidence.keep_recent()
        if not isinstance(frame, LookFrame):
            return []
        if frame.step >= _LOOKED:
            return self.look(step=frame.step)
        found = self.look(STARTING, frame.step)
        self.evidence.statistics.clear()  # untrained layers say nothing about trained ones
        return found

    def knows(self, frame: AnomalyFrame) -> bool:
        """Return whether the same was told before."""
        return is_finding(frame.kind) and place(frame.kind, frame.node) in self._told

    def look(self, rules: Sequence[Rule] | None = None, step: int | None = None) -> list[AnomalyFrame]:
        """Apply the rules, or some of them, to what is known now; return what is new, the most probable cause first.

        It is found in `step`, in the last one unless told otherwise.
        """
        found = ranked(found_by(self._rules if rules is None else rules, self.evidence))
        agreed = {finding.place for finding in ranked([*self._told.values(), *found])}
        new = [one for one in found if one.place not in self._told and one.place in agreed]
        return [one.frame(self._step if step is None else step) for one in new]

    def findings(self, rules: Sequence[Rule] | None = None) -> list[Finding]:
        """Return what was told and what the rules find now, the most probable cause first."""
        return ranked([*self._told.values(), *found_by(self._rules if rules is None else rules, self.evidence)])

    @property
    def verdict(self) -> str:
        """How many findings there are, and the most probable one, in a line; empty if there are none."""
        found = [finding for finding in self.findings() if is_finding(finding.kind)]
        if not found:
            return ""
        count = "1 finding" if len(found) == 1 else f"{len(found)} findings, the most probable cause first"
        return f"{count}: {found[0].told}" + " pn.diagnose(engine) lists them." * (len(found) > 1)


@runtime_checkable
class Recorded(Protocol):
    """The history of a training."""

    def frames(self) -> Iterable[Frame]:
        """Return what was measured, as frames."""


@runtime_checkable
class JudgedTraining(Protocol):
    """A training that is judged while it runs."""

    @property
    def judge(self) -> Judge: ...


class Findings(list[Finding]):
    """What was found, the most probable cause first; an empty list says what was looked for."""

    def __init__(self, found: Iterable[Finding], rules: Iterable[Rule]) -> None:
        super().__init__(found)
        kinds = {kind.replace("-", ""): kind for kind in KINDS}
        names = (getattr(rule, "kind", type(rule).__name__) for rule in rules)
        self._looked_for = ", ".join(kinds.get(name.lower(), name) for name in names)

    def __repr__(self) -> str:
        return super().__repr__() if self else f"Nothing found so far; looked for {self._looked_for}."


def diagnose(
    source: JudgedTraining | Recorded | nn.Module, frames: Iterable[Frame] | None = None, rules: Iterable[Rule] = RULES
) -> Findings:
    """Diagnose a training: what is wrong, where and why, and what to try.

    ::

        pn.diagnose(engine)              # a training so far, running or not: the list that its dashboard shows
        pn.diagnose(engine.history)      # or a copy of its history
        pn.diagnose(model, live.frames)  # frames of an inspector

    An engine judges itself while it trains: by losses, metrics, gradient norms and data, and by a look at its layers in the
    steps 1, 10, 100, 1,000 and so on, and in the last one. A history alone lacks these looks.

    Args:
        source: An engine, a history, or the module that `frames` are about.
        frames: Frames of a training (``inspector.live()``, the engine's channel) or of one inspection; only with a module.
        rules: The rules to apply; replace one to change its thresholds.

    Returns:
        The events of the training that have a hint and the findings of the rules, the most probable cause first. Each kind
        appears once per layer; of two that advise the opposite about the learning rate, the more probable one.

    Raises:
        ArgumentError: If `source` has another type, `frames` are missing or invalid, or `rules` are invalid.
    """
    chosen = as_rules(rules)
    extra = "" if frames is None else " with frames"
    if isinstance(source, nn.Module):
        expect(
            frames, Iterable, "frames", "the frames of a training, such as live.frames", "Write pn.diagnose(engine)."
        )
        return Findings(ranked(found_by(chosen, gather(source, frames or ()))), chosen)
    if frames is not None or not isinstance(source, JudgedTraining | Recorded):
        raise ArgumentError(
            f"diagnose takes an engine, a history, or a module with frames about it, not {shown(source)}{extra}. "
            "inspector.diagnose() says what an inspector has seen."
        )
    if isinstance(source, JudgedTraining):
        return Findings(source.judge.findings(None if rules is RULES else chosen), chosen)
    seen = list(source.frames())
    told = [Finding.of(frame) for frame in seen if isinstance(frame, AnomalyFrame) and frame.hint]
    return Findings(ranked([*told, *found_by(chosen, gather(None, seen))]), chosen)
