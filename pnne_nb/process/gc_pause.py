"""Pauses Python's garbage collector, and returns free memory to the system."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

SMALL = 2**25
"""Bytes that are too few for free memory to matter."""


@contextmanager
def without_collections() -> Iterator[None]:
    """Pause Python's garbage collector during the ``with`` block.

    Thousands of new objects set off a collection that walks all of torch: longer than the work that made them. Memory
    is given back as ever where nothing refers to it.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def collecting_new_only() -> Iterator[None]:
    """Leave what exists now out of Python's garbage collections during the ``with`` block: they need not walk all of torch."""
    with ExitStack() as end:
        if not gc.get_freeze_count():  # otherwise somebody else needs it longer
            gc.freeze()
            end.callback(gc.unfreeze)
        yield


def return_free_memory(used: int) -> None:
    """Return free memory to the system, which the C library of Linux keeps for later; elsewhere, do nothing.

    Args:
        used: Bytes of what was worked on; for a few, nothing is done.
    """
    trim = _trim() if used >= SMALL else None
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    if sys.platform != "linux":
        return None
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim  # of glibc alone
    except (OSError, AttributeError):
        return None
    return found
