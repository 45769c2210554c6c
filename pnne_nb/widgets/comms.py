"""Messages from the browser that arrive while a cell is running."""

from __future__ import annotations

from typing import Any

import ipywidgets


def answer_while_busy(widget: ipywidgets.Widget) -> bool:
    """Let `widget` receive messages while a cell keeps the kernel's main thread busy.

    JupyterLab sends a widget's messages to a thread of their own (a subshell). ipykernel 7.4 redirects them
    to wherever the widget last published from, which is the main thread for anything that a cell has
    created: a click would wait for the cell. Here the browser's choice is taken instead. Earlier versions
    have no redirection; there nothing is changed. The hook is private to ipykernel, hence the check.

    Args:
        widget: A widget whose callbacks may run on any thread.

    Returns:
        Whether a redirection was there to be switched off.
    """
    comm = getattr(widget, "comm", None)
    if comm is None or not hasattr(comm, "_reply_subshell_for"):
        return False
    comm._reply_subshell_for = _browsers_choice
    return True


def _browsers_choice(_content: Any, default: str | None) -> str | None:
    return default
