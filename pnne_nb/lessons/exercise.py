"""`Exercise`: checks an answer, says how far off it is, and gives one more hint at each further try."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final


@dataclass(frozen=True)
class Verdict:
    """What is said about an answer; a notebook shows it.

    Attributes:
        right: Whether the answer is accepted.
        words: Why, or what is missing, with hints.
    """

    right: bool
    words: str

    def __repr__(self) -> str:
        return f"{'Right.' if self.right else 'Not yet.'} {self.words}"


@final
class Exercise:
    """A question of a lesson.

    Args:
        judge: Returns the verdict about an answer, whatever it is; it raises nothing.
        hints: From the vaguest to the plainest; none of them is the answer.
    """

    def __init__(self, judge: Callable[[object], Verdict], hints: Sequence[str]) -> None:
        self._judge = judge
        self._hints = hints
        self._tries = 0

    def check(self, answer: object = None) -> Verdict:
        """Return what there is to say about an answer; after the second wrong one, with a hint, and then with one more each."""
        verdict = self._judge(answer)
        if verdict.right or answer is None:
            return verdict
        self._tries += 1
        hints = self._hints[: self._tries - 1]
        return Verdict(False, " ".join([verdict.words, *(f"Hint: {hint}" for hint in hints)]))
