"""The processes that make each step together. Alone by default; `distributed` has the other kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, final


class Peers(Protocol):
    """All processes of one training, this one among them.

    Every call is made by all of them in the same order, or nobody's call returns.

    Attributes:
        count: How many there are.
        present: Whether this process's part of the batch at hand has examples of its own; see `StandIn`.
    """

    count: int
    present: bool

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return, for each value, the sum over all processes: the same numbers in each of them."""


@final
class Alone:
    """A training in one process."""

    count = 1
    present = True

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the values themselves."""
        return list(values)


ALONE = Alone()
