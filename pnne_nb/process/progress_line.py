"""`ProgressLine`: a line of text in a terminal or a notebook that is rewritten."""

from __future__ import annotations

import os
import time
import uuid
from typing import Any, Final, TextIO, final

from pnne_nb.process.background_import import ipython

FIRST: Final = 1.0
"""Seconds until a line appears: what is shorter needs none."""
EVERY: Final = 0.5
"""Seconds between two looks."""
_CELLS: Final = 24


def is_watched(stream: object) -> bool:
    """Return whether `stream` is a terminal or a notebook, not a file or a test's, and nobody has switched progress off.

    ``PNNE_PROGRESS=0`` does so, for notebooks whose outputs are compared.
    """
    return os.environ.get("PNNE_PROGRESS") != "0" and (
        _is_notebook(stream) or bool(getattr(stream, "isatty", lambda: False)())
    )


def _is_notebook(stream: object) -> bool:
    return type(stream).__module__.startswith("ipykernel.")


def runs_unattended() -> bool:
    """Return whether a program such as nbconvert runs this notebook, which shows only a cell's final output."""
    kernel = getattr(ipython(), "kernel", None)
    # A front end says with each cell whether somebody could answer `input`.
    return kernel is not None and not getattr(kernel, "_allow_stdin", True)


def bar(done: float) -> str:
    """Return a bar for a share between 0 and 1: ``"[######      ] 50%"``."""
    share = min(1.0, max(0.0, done))
    filled = round(share * _CELLS)
    return f"[{'#' * filled}{' ' * (_CELLS - filled)}] {share:.0%}"


@final
class ProgressLine:
    """Rewrites one line of text.

    In a notebook the line is an output of its own, which is empty in the end: what is written to a stream stays in the
    cell, even blanks.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        shell = ipython() if _is_notebook(stream) else None
        self._publisher: Any = getattr(shell, "display_pub", None)
        self._id = uuid.uuid4().hex
        self._width = 0
        self._said = ""
        self._next = time.monotonic() + FIRST

    def write(self, text: str) -> None:
        """Replace the line by `text`; an unchanged text is not written again, because a notebook keeps every write."""
        if text == self._said:
            return
        self._said = text
        if self._publisher is not None:
            self._publish({"text/plain": text}, update=self._width > 0)
        else:
            self._stream.write(f"\r{text.ljust(self._width)}")
            self._stream.flush()
        self._width = max(self._width, len(text))

    def is_due(self) -> bool:
        """Return whether it is time to write: from `FIRST` seconds on, and then every `EVERY`."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + EVERY
        return True

    def keep(self) -> None:
        """Keep the last line in a terminal, if there is one, and continue below it; remove it from a notebook."""
        self._end("\n")

    def clear(self) -> None:
        """Remove the line."""
        self._end(f"\r{' ' * self._width}\r")

    def _end(self, text: str) -> None:
        if not self._width:
            return
        if self._publisher is not None:
            self._publish({}, update=True)
        else:
            self._stream.write(text)
            self._stream.flush()
        self._width, self._said = 0, ""

    def _publish(self, data: dict[str, str], *, update: bool) -> None:
        self._publisher.publish(data, transient={"display_id": self._id}, update=update)
