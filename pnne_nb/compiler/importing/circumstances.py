"""Where the code that is traced stands: inside of a checkpoint, under an autocast, at the question that it asks."""

from __future__ import annotations

from types import CodeType, FrameType

import torch
from torch.utils import checkpoint as checkpointing

from pnne_nb.compiler.importing.rebinding import plainly


def is_checkpointed(frame: FrameType | None, until: CodeType) -> bool:
    """Whether a frame, called by code `until`, stands inside of ``torch.utils.checkpoint.checkpoint``."""
    while frame is not None and frame.f_code is not until:
        if frame.f_code.co_filename == checkpointing.__file__ or frame.f_code is plainly.__code__:
            return True
        frame = frame.f_back
    return False


def autocast() -> tuple[bool, ...]:
    """Return on which kinds of devices an autocast is in force."""
    return tuple(map(torch.is_autocast_enabled, ("cpu", "cuda")))


def asking(frame: FrameType) -> FrameType:
    """Return the frame of the code outside this package that asks."""
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(
        "pnne_nb.compiler.importing"
    ):
        frame = frame.f_back
    return frame
