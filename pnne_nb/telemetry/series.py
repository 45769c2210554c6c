"""Keeps numbers over steps in bounded memory, for a history and for the plot of a curve."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias, final

_Point: TypeAlias = tuple[int, float, float]
_GROUP = 4
"""Points that become two when a series is full: two stretches, each with its least and its greatest value."""


class Curves(Protocol):
    """Measurements of a training by their names, as ``engine.history``."""

    def __contains__(self, name: object, /) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def points(self, name: str) -> tuple[Any, Any]:
        """Return the steps at which something was measured, and what: two NumPy arrays of shape ``[points]``."""


@final
class Series:
    """Numbers over steps. Beyond `capacity` points it keeps the least and the greatest of each stretch.

    Every stretch of steps is equally long, so the resolution is the same everywhere, and no spike is lost.

    Args:
        capacity: Points kept at most, beside the newest three; a multiple of 4.
        paired: Whether a companion, another number, belongs to each value, and stays with it.
        nan_wins: Whether NaN counts as below and above every number, so that it stays visible in its stretch;
            otherwise every number counts for more.
    """

    def __init__(self, capacity: int = 1 << 16, *, paired: bool = False, nan_wins: bool = True) -> None:
        if capacity < _GROUP or capacity % _GROUP:
            raise ValueError(f"capacity must be a positive multiple of {_GROUP}, not {capacity!r}.")
        self._capacity = capacity
        self._paired = paired
        self._nan_wins = nan_wins
        self._steps = array("q")
        self._values = array("d")
        self._companions = array("d")
        self._stretch = 1
        self._seen = 0
        self._low: _Point | None = None
        self._high: _Point | None = None
        self._last: _Point | None = None

    def __len__(self) -> int:
        return len(self._steps)

    def append(self, step: int, value: float, companion: float = 0.0) -> None:
        """Record one value, and its companion if the series is paired."""
        if self._stretch == 1:
            self._steps.append(step)
            self._values.append(value)
            if self._paired:
                self._companions.append(companion)
        else:
            self._gather((step, value, companion))
        if len(self._steps) >= self._capacity:
            self._last = (step, value, companion)
            self._halve()

    def _gather(self, point: _Point) -> None:
        self._last = point
        self._low = self._lower(point, self._low)
        self._high = self._higher(point, self._high)
        self._seen += 1
        if self._seen == self._stretch:
            self._keep(self._low, self._high)
            self._seen, self._low, self._high = 0, None, None

    def _lower(self, new: _Point, old: _Point | None) -> _Point:
        """Return the one of two points whose value is less, the older one of two equal ones."""
        if old is None or new[1] < old[1]:
            return new
        return self._of_numbers_and_nan(new, old)

    def _higher(self, new: _Point, old: _Point | None) -> _Point:
        if old is None or new[1] > old[1]:
            return new
        return self._of_numbers_and_nan(new, old)

    def _of_numbers_and_nan(self, new: _Point, old: _Point) -> _Point:
        new_is_nan, old_is_nan = new[1] != new[1], old[1] != old[1]
        return new if new_is_nan != old_is_nan and new_is_nan == self._nan_wins else old

    def _keep(self, one: _Point, other: _Point) -> None:
        for step, value, companion in (one, other) if one[0] <= other[0] else (other, one):
            self._steps.append(step)
            self._values.append(value)
            if self._paired:
                self._companions.append(companion)

    def _halve(self) -> None:
        companions = self._companions if self._paired else [0.0] * len(self._steps)
        points = list(zip(self._steps, self._values, companions, strict=True))
        self._steps, self._values, self._companions = array("q"), array("d"), array("d")
        for start in range(0, len(points), _GROUP):
            low = high = points[start]
            for point in points[start + 1 : start + _GROUP]:
                low, high = self._lower(point, low), self._higher(point, high)
            self._keep(low, high)
        self._stretch = _GROUP if self._stretch == 1 else self._stretch * 2

    def cut(self, step: int) -> None:
        """Forget what was recorded after `step`; of a stretch under way, its extremes."""
        count = bisect_right(self._steps, step)
        del self._steps[count:], self._values[count:], self._companions[count:]
        if self._last is not None and self._last[0] > step:
            self._seen, self._low, self._high, self._last = 0, None, None, None

    def points(self) -> tuple[array[int], array[float], array[float]]:
        """Return steps, values and companions, oldest first, the newest value always among them; all are copies."""
        steps, values, companions = self._steps[:], self._values[:], self._companions[:]
        pending = sorted({point for point in (self._low, self._high, self._last) if point is not None})
        if self._seen == 0 and pending and pending[0][0] == steps[-1]:
            pending = []  # the newest ended its stretch, and is one of its extremes
        for step, value, companion in pending:
            steps.append(step)
            values.append(value)
            if self._paired:
                companions.append(companion)
        return steps, values, companions

    def state_dict(self) -> dict[str, Any]:
        """Everything of a series that is not paired, in plain types."""
        pending = [None if point is None else point[:2] for point in (self._low, self._high, self._last)]
        return {
            "steps": self._steps[:],
            "values": self._values[:],
            "stretch": self._stretch,
            "seen": self._seen,
            "pending": pending,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        self._steps, self._values = array("q", state["steps"]), array("d", state["values"])
        self._stretch, self._seen = state["stretch"], state["seen"]
        self._low, self._high, self._last = (None if point is None else (*point, 0.0) for point in state["pending"])
