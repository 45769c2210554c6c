"""`Finding`: something that is wrong with a training; `Rule`: finds one kind of fault; `ranked`: the most probable first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from pnne_nb.diagnosis.evidence import Evidence
from pnne_nb.diagnosis.kinds import KINDS, false_alarms, place, rank, rate_advice
from pnne_nb.errors import ArgumentError, expect, shown
from pnne_nb.telemetry.frames import AnomalyFrame
from pnne_nb.telemetry.frames import Evidence as Numbers


class Finding(msgspec.Struct, frozen=True):
    """Something that a person should look at.

    Attributes:
        kind: Stable machine name of what was found, e.g. ``"vanishing-gradients"``.
        layer: Path of the layer, or None for the training as a whole.
        reason: The observation, with numbers.
        hint: What to try.
        evidence: (name, number) pairs that show it; empty if a curve of the history shows it.
    """

    kind: str
    layer: str | None
    reason: str
    hint: str
    evidence: Numbers = ()

    def __str__(self) -> str:
        return f"{self.told} {self.false_alarms}" if self.false_alarms else self.told

    @property
    def told(self) -> str:
        """Layer, reason and hint as one text."""
        return f"{f'{self.layer}: ' if self.layer else ''}{self.reason} {self.hint}"

    @property
    def false_alarms(self) -> str | None:
        """The false alarms of this kind as a sentence; None for an event."""
        return false_alarms(self.kind)

    @property
    def place(self) -> tuple[str, str | None]:
        """What tells findings apart."""
        return place(self.kind, self.layer)

    def frame(self, step: int) -> AnomalyFrame:
        """Return the finding as a frame, to be shown at its layer."""
        return AnomalyFrame(step, self.kind, self.reason, self.layer, self.hint, self.evidence)

    @classmethod
    def of(cls, frame: AnomalyFrame) -> Finding:
        """Return what a frame tells."""
        return cls(frame.kind, frame.node, frame.message, frame.hint or "", frame.evidence)


@runtime_checkable
class Rule(Protocol):
    """Detects one kind of fault."""

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Return the findings; empty if there is no fault, or not enough evidence."""


def found_by(rules: Iterable[Rule], evidence: Evidence) -> list[Finding]:
    """Return what `rules` find.

    Raises:
        ArgumentError: A rule finds a kind that `kinds.py` does not declare.
    """
    found = [finding for rule in rules for finding in rule.find(evidence)]
    for finding in found:
        if finding.kind not in KINDS:
            raise ArgumentError(
                f"A rule found {finding.kind!r}, which has no place among the kinds of findings: declare it in "
                "pnne_nb/diagnosis/kinds.py, in the order of causes."
            )
    return found


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Return each kind once, some once per layer, the most probable cause first.

    Of two findings with opposite advice about the learning rate, the less probable one is left out.
    """
    first: dict[tuple[str, str | None], Finding] = {}
    for finding in findings:
        first.setdefault(finding.place, finding)
    kept: list[Finding] = []
    advised = ""
    for finding in sorted(first.values(), key=lambda finding: rank(finding.kind)):
        advice = rate_advice(finding.kind)
        if advice and advised and advice != advised:
            continue
        advised = advised or advice
        kept.append(finding)
    return kept


def as_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return `rules` as a tuple.

    Raises:
        ArgumentError: If one of them is not a rule.
    """
    expect(rules, Iterable, "rules", "several rules", "RULES has them all.")
    listed = tuple(rules)
    for rule in listed:
        if isinstance(rule, type) or not isinstance(rule, Rule):
            raise ArgumentError(f"rules holds {shown(rule)}: give rules such as ExplodingGradients(limit=100).")
    return listed
