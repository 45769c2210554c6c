"""`Finding`: something that is wrong with a training, of one of the `KINDS`; `Rule`: finds one kind; `ranked`: causes first."""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from pnne_nb.diagnosis.evidence import Evidence
from pnne_nb.errors import ArgumentError, expect, shown
from pnne_nb.telemetry.frames import AnomalyFrame
from pnne_nb.telemetry.frames import Evidence as Numbers

Advice = Literal["", "raise", "lower"]


class Kind(NamedTuple):
    """A kind of finding.

    Attributes:
        name: Stable machine name.
        rate: What its hint advises about the learning rate, if anything.
        curves: Series of the history that show it where it has no numbers of its own.
        by_layer: Whether each layer has a finding of its own; otherwise one finding names the worst or the first layer.
        cause: What is wrong, in general.
        evidence: What shows it.
        repair: What to do about it.
    """

    name: str
    rate: Advice = ""
    curves: Sequence[str] = ()
    by_layer: bool = False
    cause: str = ""
    evidence: str = ""
    repair: str = ""


KINDS: Final[dict[str, Kind]] = {
    name: Kind(name, **told)
    for name, told in tomllib.loads(Path(__file__).with_name("kinds.toml").read_text(encoding="utf-8")).items()
}
"""By name, causes before consequences."""

MEASURED: Final = Path(__file__).with_name("false_alarms.json")
"""Counts of false alarms by kind, in how many healthy trainings, with which version and when.
``scripts/fault_rules.py --write`` makes the file. A kind without a row was not measured."""


def declare(kind: Kind, before: str | None) -> None:
    """Declare a kind among the causes: before another one, or after all if `before` is None; a second time replaces it."""
    order = [each for each in KINDS.values() if each.name != kind.name]
    order.insert(next((place for place, each in enumerate(order) if each.name == before), len(order)), kind)
    KINDS.clear()
    KINDS.update((each.name, each) for each in order)


def rank(kind: str) -> int:
    """Return the rank of a kind of finding: a smaller rank explains a larger one."""
    return list(KINDS).index(kind) if kind in KINDS else len(KINDS)


def is_finding(kind: str) -> bool:
    """Return whether the kind is a diagnosis, not a mere event."""
    return kind in KINDS


def place(kind: str, layer: str | None) -> tuple[str, str | None]:
    """Return what tells findings apart: their kind, and of some kinds and of events their layer."""
    return kind, layer if kind not in KINDS or KINDS[kind].by_layer else None


def curves(kind: str) -> Sequence[str]:
    """Return the series of the history that show a kind of finding."""
    return KINDS[kind].curves if kind in KINDS else ()


def false_alarms(kind: str) -> str | None:
    """Return a sentence with the measured false alarms of a kind of finding; None for an event."""
    if not is_finding(kind):
        return None
    measured = _measured()
    count = measured["false_alarms"].get(kind)
    if count is None:
        return "False alarms: not measured yet."
    return f"False alarms: {count} in {measured['healthy']} healthy trainings."


@functools.cache
def _measured() -> Any:
    return json.loads(MEASURED.read_text(encoding="utf-8"))


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
        more = f' {self.false_alarms} pn.explain("{self.kind}") says more.' if self.false_alarms else ""
        return self.told + more

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
        ArgumentError: A rule finds a kind that `KINDS` does not declare.
    """
    found = [finding for rule in rules for finding in rule.find(evidence)]
    for finding in found:
        if finding.kind not in KINDS:
            raise ArgumentError(
                f"A rule found {finding.kind!r}, which has no place among the kinds of findings: declare it in "
                "pnne_nb/diagnosis/kinds.toml, in the order of causes."
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
        advice = KINDS[finding.kind].rate if is_finding(finding.kind) else ""
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
