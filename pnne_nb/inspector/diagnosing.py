"""A probe that also says what is wrong: findings become frames as soon as they are made, each once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, final

from pnne_nb.frames import Frame
from pnne_nb.inspector.diagnosis import RULES, Rule, diagnose
from pnne_nb.inspector.live import LiveProbe

EVERY: Final = 10
"""Observations between two looks at what has gathered: a look takes about as long as an observation."""

REMEMBERED: Final = 20
"""Observations that a look considers."""


@final
class DiagnosingProbe:
    """Observes like the probe that it wraps, and adds an `AnomalyFrame` for every new finding.

    It is a `pnne_nb.probe.Probe`; its looks count as observing, so they stay within the budget too.

    Args:
        probe: What measures.
        rules: What to look for. Those about losses stay silent: a probe does not see them.
    """

    def __init__(self, probe: LiveProbe, rules: Sequence[Rule] = RULES) -> None:
        self._probe = probe
        self._rules = tuple(rules)
        self._recent: deque[Sequence[Frame]] = deque(maxlen=REMEMBERED)
        self._observed = 0
        self._step = 0
        self._said: set[tuple[str, str | None]] = set()

    def open(self, step: int) -> None:
        """Attach what the probe needs."""
        self._step = step
        self._probe.open(step)

    def gradients_ready(self) -> None:
        """Let the probe measure gradients."""
        self._probe.gradients_ready()

    def updated(self) -> None:
        """Let the probe measure updates."""
        self._probe.updated()

    def close(self) -> Sequence[Frame]:
        """Detach everything; the frames of the step, and now and then what they mean."""
        frames = self._probe.close()
        if not frames:
            return frames
        self._recent.append(frames)
        self._observed += 1
        if self._observed % EVERY:
            return frames
        found = diagnose(self._probe.model, (frame for step in self._recent for frame in step), self._rules)
        new = [finding for finding in found if (finding.kind, finding.layer) not in self._said]
        self._said |= {(finding.kind, finding.layer) for finding in new}
        return [*frames, *(finding.frame(self._step) for finding in new)]
