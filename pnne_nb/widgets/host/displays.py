"""Tracks the widgets that cells show, and closes those that are no longer visible, with all of their parts."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol, final

import ipywidgets
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
        self._waiting: weakref.WeakSet[Closable] = weakref.WeakSet()

    @classmethod
    def here(cls) -> Displays:
        """Return the displays of this process."""
        if cls._process is None:
            cls._process = cls()
        return cls._process

    def shown(self, widget: Closable, in_view: Callable[[Closable], bool] | None = None) -> None:
        """Note that the running cell shows `widget`; outside a notebook's cell this does nothing.

        Some front ends do not tell which cell is running. There, a cell is known by its code, and since another cell
        may have the same, what it showed before is closed only when the page shows it no more.

        Args:
            widget: The widget.
            in_view: Whether a page shows such a widget; None: that is not known, and without cells nothing is closed.
        """
        match _running_cell():
            case (str() as cell, execution, _):
                self.record(cell, execution, widget)
            case (None, execution, str() as code) if in_view is not None:
                for replaced in self._replace(f"code {code}", execution, widget):
                    if in_view(replaced):
                        self._waiting.add(replaced)
                    else:
                        replaced.close()

    def left(self, widget: Closable) -> None:
        """Note that no page shows `widget` any more; close it if something else has taken its place."""
        if widget in self._waiting and not self._is_shown(widget):
            self._waiting.discard(widget)
            widget.close()

    def record(self, cell: str, execution: int, widget: Closable) -> None:
        """Record that the cell `cell` shows `widget` in its run number `execution`."""
        for replaced in self._replace(cell, execution, widget):
            replaced.close()

    def _replace(self, cell: str, execution: int, widget: Closable) -> list[Closable]:
        """Note what a cell shows; return what it showed in an earlier run, and no other cell shows."""
        before, shown = self._cells.get(cell, (execution, []))
        again = before == execution
        self._cells[cell] = (execution, [*shown, weakref.ref(widget)] if again else [weakref.ref(widget)])
        old = [] if again else [reference() for reference in shown]
        return [replaced for replaced in old if replaced is not None and not self._is_shown(replaced)]

    def _is_shown(self, widget: Closable) -> bool:
        return any(reference() is widget for _, shown in self._cells.values() for reference in shown)


def _running_cell() -> tuple[str | None, int, str] | None:
    """Return the running cell's identity, where the front end tells it, the number of the execution, and its code."""
    shell = get_ipython()
    if shell is None or not hasattr(shell, "get_parent"):
        return None
    parent = shell.get_parent()
    cell, code = parent.get("metadata", {}).get("cellId"), parent.get("content", {}).get("code")
    if not isinstance(cell, str) and not isinstance(code, str):
        return None
    return cell if isinstance(cell, str) else None, shell.execution_count, str(code)


def widget_tree(root: ipywidgets.Widget) -> list[ipywidgets.Widget]:
    """Return `root` and every widget that one of its traits refers to, directly or not, each once."""
    found: dict[int, ipywidgets.Widget] = {}
    waiting: list[object] = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, ipywidgets.Widget) and id(item) not in found:
            found[id(item)] = item
            waiting.extend(getattr(item, name) for name in item.keys)
        elif isinstance(item, list | tuple):
            waiting.extend(item)
        elif isinstance(item, dict):
            waiting.extend(item.values())
    return list(found.values())


def close_parts(root: ipywidgets.Widget) -> None:
    """Close every widget below `root`: layouts, styles, children, marks, scales, axes."""
    for part in widget_tree(root)[1:]:
        part.close()
