"""Writes one line of text over and over, for whoever waits in a terminal or a notebook."""

from __future__ import annotations

import time
from typing import Final, TextIO, final

from pnne_nb.process.background_import import ipython

FIRST: Final = 1.0
"""Seconds until a line appears: what is shorter needs none."""
EVERY: Final = 0.5
"""Seconds between two looks."""
_CELLS: Final = 24


def is_watched(stream: object) -> bool:
    """Return whether a person looks at `stream`: in a terminal or a notebook, not in a file or a test."""
    in_notebook = type(stream).__module__.startswith("ipykernel.")
    return in_notebook or bool(getattr(stream, "isatty", lambda: False)())


def runs_unattended() -> bool:
    """Return whether this is a notebook that a program runs, such as nbconvert: what a cell leaves is all that it shows."""
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
    """Writes one line over and over.

    Args:
        stream: Where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0
        self._said = ""
        self._next = time.monotonic() + FIRST

    def write(self, text: str) -> None:
        """Write `text` over what is there; what stays the same is not written again, because a notebook keeps it all."""
        if text == self._said:
            return
        self._said = text
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
        """Leave the last line, if there is one; what is written next begins below it."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()
            self._width, self._said = 0, ""

    def clear(self) -> None:
        """Leave nothing."""
        if self._width:
            self._stream.write(f"\r{' ' * self._width}\r")
            self._stream.flush()
            self._width, self._said = 0, ""
