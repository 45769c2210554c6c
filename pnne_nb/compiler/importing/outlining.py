"""Finds the function to blame when a ``forward`` cannot be followed: that alone may be kept as one call."""

from __future__ import annotations

import inspect
import sys
from itertools import pairwise
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from pnne_nb.compiler.importing.rebinding import Names


def outside(error: BaseException) -> Any:
    """Return the innermost function that traced code called, and in which an exception was raised, or None."""
    frames = list(_frames(error.__traceback__))
    for caller, callee in reversed(list(pairwise(frames))):
        if isinstance(caller.f_globals, Names):
            found = _function(callee)
            if found is not None:
                return found
    return None


def _frames(place: TracebackType | None) -> Any:
    while place is not None:
        # A decorator's own frame stands between the call and what it wraps.
        yield place.tb_frame
        place = place.tb_next


def _function(frame: FrameType) -> Any:
    """Return the function of a module that a frame runs, or None for methods and functions inside of functions."""
    home = sys.modules.get(str(frame.f_globals.get("__name__", "")))
    if home is None or home.__name__.startswith("pnne_nb.compiler"):
        return None
    found = vars(home).get(frame.f_code.co_qualname)
    return found if isinstance(found, FunctionType) and _runs(found, frame.f_code) else None


def _runs(function: Any, code: CodeType) -> bool:
    return getattr(inspect.unwrap(function), "__code__", None) is code or function.__code__ is code
