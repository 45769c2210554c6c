"""Lets widgets receive messages from the browser while a cell runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ipywidgets


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
