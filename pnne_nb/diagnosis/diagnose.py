"""``pn.diagnose``: says what is wrong with a training, running or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from torch import nn

from pnne_nb.diagnosis.evidence import gather
from pnne_nb.diagnosis.finding import Finding, Rule, as_rules, found_by, ranked
from pnne_nb.diagnosis.judge import Judge
from pnne_nb.diagnosis.rules import RULES
from pnne_nb.errors import ArgumentError, expect, shown
from pnne_nb.telemetry.frames import AnomalyFrame, Frame


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


def diagnose(
    source: JudgedTraining | Recorded | nn.Module, frames: Iterable[Frame] | None = None, rules: Iterable[Rule] = RULES
) -> list[Finding]:
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
        return ranked(found_by(chosen, gather(source, frames or ())))
    if frames is not None or not isinstance(source, JudgedTraining | Recorded):
        raise ArgumentError(
            f"diagnose takes an engine, a history, or a module with frames about it, not {shown(source)}{extra}. "
            "inspector.diagnose() says what an inspector has seen."
        )
    if isinstance(source, JudgedTraining):
        return source.judge.findings(None if rules is RULES else chosen)
    seen = list(source.frames())
    told = [Finding.of(frame) for frame in seen if isinstance(frame, AnomalyFrame) and frame.hint]
    return ranked([*told, *found_by(chosen, gather(None, seen))])
