"""Handles messages from the browser that arrive while a cell is running."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ipywidgets


def answer_while_busy(widget: ipywidgets.Widget, overhear: Callable[[object], None] | None = None) -> bool:
    """Let `widget` receive messages while a cell keeps the kernel's main thread busy.

    JupyterLab sends a widget's messages to a thread of their own (a subshell). ipykernel 7.4 redirects them
    to wherever the widget last published from, which is the main thread for anything that a cell has
    created: a click would wait for the cell. Here the browser's choice is taken instead. Earlier versions
    have no redirection; there nothing is changed. The hook is private to ipykernel, hence the check.

    Args:
        widget: A widget whose callbacks may run on any thread.
        overhear: Called with each custom message in the thread that takes it from the browser, one change of threads
            before the widget's own callbacks are: each change waits for Python's lock. It must not wait. What it raises
            is dropped, because the widget gets the message too.

    Returns:
        Whether a redirection was there to be switched off; otherwise nothing is overheard.
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
