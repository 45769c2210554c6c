"""The undo and redo stacks of a document."""

from __future__ import annotations

from typing import final

import msgspec

from pnne_nb.errors import GraphError
from pnne_nb.graph.model.ops import Op


@final
class Step(msgspec.Struct, frozen=True):
    """One undoable change: what was done, and the ops that take it back, in the order in which to apply them."""

    label: str
    ops: tuple[Op, ...]
    inverse: tuple[Op, ...]


@final
class UndoStack:
    """Two stacks of steps. A new step clears what could be brought back, as in every editor."""

    def __init__(self) -> None:
        self._done: list[Step] = []
        self._undone: list[Step] = []

    @property
    def undo_label(self) -> str | None:
        """What undo would take back, or None."""
        return self._done[-1].label if self._done else None

    @property
    def redo_label(self) -> str | None:
        """What redo would bring back, or None."""
        return self._undone[-1].label if self._undone else None

    @property
    def done(self) -> tuple[Step, ...]:
        """Every step that can be taken back, in order."""
        return tuple(self._done)

    @property
    def undone(self) -> tuple[Step, ...]:
        """Every step that can be brought back, in the order in which it was done."""
        return tuple(reversed(self._undone))

    def record(self, step: Step) -> None:
        """Remember a new step."""
        self._done.append(step)
        self._undone.clear()

    def last_done(self) -> Step:
        """Return the step that undo takes back.

        Raises:
            GraphError: If there is none.
        """
        if not self._done:
            raise GraphError("There is nothing to undo.")
        return self._done[-1]

    def last_undone(self) -> Step:
        """Return the step that redo brings back.

        Raises:
            GraphError: If there is none.
        """
        if not self._undone:
            raise GraphError("There is nothing to redo.")
        return self._undone[-1]

    def took_back(self) -> None:
        """Note that the last step has been taken back."""
        self._undone.append(self._done.pop())

    def brought_back(self) -> None:
        """Note that the step taken back last has been brought back."""
        self._done.append(self._undone.pop())
