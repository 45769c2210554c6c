"""Which cell shows which widget, so that what nobody can see any more is closed."""

from __future__ import annotations

import weakref
from typing import Any, Protocol, final

from IPython import get_ipython


class Closable(Protocol):
    """A widget that can be closed."""

    def close(self) -> None:
        """Close it here and in the browser."""


@final
class Displays:
    """What the cells of a notebook have shown.

    ipywidgets keeps every widget for ever. A cell that is run fifty times would leave fifty dashboards, each
    with its engine and its model. When a cell is run again and shows something else, what it showed before
    has left the page; if no other cell shows it either, it is closed.
    """

    _process: Displays | None = None

    def __init__(self) -> None:
        self._cells: dict[str, tuple[int, list[weakref.ref[Any]]]] = {}

    @classmethod
    def here(cls) -> Displays:
        """The displays of this process."""
        if cls._process is None:
            cls._process = cls()
        return cls._process

    def shown(self, widget: Closable) -> None:
        """`widget` is being shown by the running cell; outside a notebook's cell this does nothing."""
        place = _running_cell()
        if place is not None:
            self.record(*place, widget)

    def record(self, cell: str, execution: int, widget: Closable) -> None:
        """The cell `cell` shows `widget` in its run number `execution`."""
        before, shown = self._cells.get(cell, (execution, []))
        self._cells[cell] = (execution, [weakref.ref(widget)] if before != execution else [*shown, weakref.ref(widget)])
        if before != execution:
            for reference in shown:
                replaced = reference()
                if replaced is not None and not self._is_shown(replaced):
                    replaced.close()

    def _is_shown(self, widget: Closable) -> bool:
        return any(reference() is widget for _, shown in self._cells.values() for reference in shown)


def _running_cell() -> tuple[str, int] | None:
    """The running cell's identity and the number of the execution, where the front end tells them."""
    shell = get_ipython()
    if shell is None or not hasattr(shell, "get_parent"):
        return None
    cell = shell.get_parent().get("metadata", {}).get("cellId")
    return (cell, shell.execution_count) if isinstance(cell, str) else None
