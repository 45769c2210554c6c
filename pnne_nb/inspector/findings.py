"""What a diagnosis finds, and what finds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from pnne_nb.frames import AnomalyFrame
from pnne_nb.inspector.evidence import Evidence


class Finding(msgspec.Struct, frozen=True):
    """Something that a person should look at.

    Attributes:
        kind: Stable machine name of what was found, e.g. ``"vanishing-gradients"``.
        layer: Path of the layer, or None for the training as a whole.
        reason: What was seen, with numbers.
        hint: What to try.
    """

    kind: str
    layer: str | None
    reason: str
    hint: str

    def __str__(self) -> str:
        return f"{f'{self.layer}: ' if self.layer else ''}{self.reason} {self.hint}"

    def frame(self, step: int) -> AnomalyFrame:
        """The finding as a frame, to be shown at its layer."""
        return AnomalyFrame(step, self.kind, self.reason, node=self.layer, hint=self.hint)


@runtime_checkable
class Rule(Protocol):
    """Finds one kind of trouble."""

    def find(self, evidence: Evidence) -> Sequence[Finding]:
        """Return what was found; empty if all is well or too little is known."""
