"""Tracks the widgets that cells show, and closes those that are gone, with all their parts; lets them answer while a cell runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, final

import ipywidgets
from IPython import get_ipython


class Closable(Protocol):
    """A widget that can be closed."""

    def close(self) -> None:
        """Close it here and in the browser."""


@final
class Displays:
    """The widgets that the cells of a notebook show.

    ipywidgets keeps every widget for ever: a cell that is run fifty times would leave fifty dashboards, each with its engine
    and model. A widget is therefore closed when its cell is run again, shows something else, and no other cell shows it.
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
        """Record that the running cell shows `widget`; outside a notebook's cell this does nothing.

        Some front ends do not tell which cell is running. There, its code identifies a cell. Since several cells may have
        the same code, their earlier widgets are closed only when no page shows them.

        Args:
            widget: The widget.
            in_view: Returns whether a page shows a widget. With None, nothing is closed where cells are unknown.
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
        """Record that no page shows `widget`; close it if its cell shows something else."""
        if widget in self._waiting and not self._is_shown(widget):
            self._waiting.discard(widget)
            widget.close()

    def record(self, cell: str, execution: int, widget: Closable) -> None:
        """Record that the cell `cell` shows `widget` in its run number `execution`."""
        for replaced in self._replace(cell, execution, widget):
            replaced.close()

    def _replace(self, cell: str, execution: int, widget: Closable) -> list[Closable]:
        """Record what a cell shows; return the widgets of its earlier runs that no other cell shows."""
        before, shown = self._cells.get(cell, (execution, []))
        kept = shown if before == execution else []
        self._cells[cell] = (execution, [*kept, weakref.ref(widget)])
        old = [reference() for reference in shown if reference not in kept]
        return [replaced for replaced in old if replaced is not None and not self._is_shown(replaced)]

    def _is_shown(self, widget: Closable) -> bool:
        return any(reference() is widget for _, shown in self._cells.values() for reference in shown)


def _running_cell() -> tuple[str | None, int, str] | None:
    """Return the running cell's id (None if the front end does not tell it), execution number and code."""
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


def close_whole(widget: ipywidgets.Widget) -> None:
    """Close a widget with everything below it."""
    close_parts(widget)
    widget.close()


def button(words: str, more: str, act: Callable[[], object], **traits: Any) -> ipywidgets.Button:
    """Return a button as wide as its words that does `act`, also while a cell runs; `more` is its tooltip."""
    made = ipywidgets.Button(description=words, tooltip=more, layout=ipywidgets.Layout(width="auto"), **traits)
    made.on_click(lambda _button: act())
    answer_while_busy(made)
    return made


def chooser(options: Any, words: str, act: Callable[[], object], **traits: Any) -> ipywidgets.Dropdown:
    """Return a list of choices named `words` that does `act` after each choice, also while a cell runs."""
    made = ipywidgets.Dropdown(
        options=options, description=words, layout=ipywidgets.Layout(width="auto"),
        style={"description_width": "auto"}, **traits,
    )  # fmt: skip
    made.observe(lambda _change: act(), "value")
    answer_while_busy(made)
    return made


def answer_while_busy(widget: ipywidgets.Widget, overhear: Callable[[object], None] | None = None) -> bool:
    """Let `widget` receive messages while a cell keeps the kernel's main thread busy.

    JupyterLab sends a widget's messages to a separate thread (a subshell). ipykernel 7.4 redirects them to the thread
    from which the widget last published, which is the main thread for a widget made in a cell, so that a click would wait
    for the cell. This function turns the redirection off. Earlier versions have none. The hook is private to ipykernel,
    hence the check.

    Args:
        widget: A widget whose callbacks may run on any thread.
        overhear: Called with each custom message in the thread that receives it, one switch of threads before the
            widget's callbacks, because each switch waits for Python's lock. It must not wait. Its errors are dropped,
            because the widget gets the message too.

    Returns:
        Whether there was a redirection; otherwise `overhear` is never called.
    """
    comm = getattr(widget, "comm", None)
    if comm is None or not hasattr(comm, "_reply_subshell_for"):
        return False

    def browsers_choice(content: Any, default: str | None) -> str | None:
        if overhear is not None:
            with suppress(Exception):
                if content["method"] == "custom":
                    overhear(content["content"])
        return default

    comm._reply_subshell_for = browsers_choice
    return True
