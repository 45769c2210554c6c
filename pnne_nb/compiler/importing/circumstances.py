"""Where the code that is traced stands: inside of a checkpoint, at the question that it asks, before a variable."""

from __future__ import annotations

from types import CodeType, FrameType
from typing import NamedTuple

from torch.utils import checkpoint as checkpointing

from pnne_nb.compiler.importing import rewriting
from pnne_nb.compiler.importing.rebinding import Names, plainly
from pnne_nb.compiler.importing.storing import RETURNED, stored


def is_checkpointed(frame: FrameType | None, until: CodeType) -> bool:
    """Whether a frame, called by code `until`, stands inside of ``torch.utils.checkpoint.checkpoint``."""
    while frame is not None and frame.f_code is not until:
        if frame.f_code.co_filename == checkpointing.__file__ or frame.f_code is plainly.__code__:
            return True
        frame = frame.f_back
    return False


def asking(frame: FrameType) -> FrameType:
    """Return the frame of the code outside this package that asks."""
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(
        "pnne_nb.compiler.importing"
    ):
        frame = frame.f_back
    return frame


def is_followed(frame: FrameType) -> bool:
    """Whether a frame is of the code that is traced, and not of what that calls in other packages."""
    return isinstance(frame.f_globals, Names)


class Variable(NamedTuple):
    """What traced code calls a value.

    Attributes:
        name: Of the variable.
        part: Whether it holds one of several parts that the code takes a value apart into.
    """

    name: str
    part: bool


def variable(frame: FrameType | None, part: object) -> Variable | None:
    """Return the variable in which the traced code puts what a call gives it.

    Args:
        frame: Of the call.
        part: Which part of a value it is, where the code takes that apart.
    """
    while frame is not None and frame.f_globals is not vars(rewriting):  # which has values of its own
        if is_followed(frame):
            found = stored(frame)
            if isinstance(found, tuple):
                name = found[part] if isinstance(part, int) and 0 <= part < len(found) else ""
                return Variable(name, part=True) if name else None
            if found is not RETURNED:
                return Variable(str(found), part=False) if found else None
        frame = frame.f_back
    return None
