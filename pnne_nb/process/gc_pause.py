"""Pauses Python's collector of reference cycles for a moment."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Keep Python from looking for reference cycles during the ``with`` block.

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
