"""`Judge`: judges a training while it runs, from what it records and from a few looks at its layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, final

from torch import nn

from pnne_nb.diagnosis.evidence import Evidence
from pnne_nb.diagnosis.finding import Finding, Rule, found_by, ranked
from pnne_nb.diagnosis.kinds import is_finding, place
from pnne_nb.diagnosis.layer_rules import NotFinite, UpdateRatio
from pnne_nb.diagnosis.level_rules import EqualUnits, SmallWeights
from pnne_nb.diagnosis.rules import RULES
from pnne_nb.diagnosis.trends import Trends
from pnne_nb.telemetry.frames import AnomalyFrame, BaselineFrame, EpochFrame, Frame, LookFrame, StepFrame

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
