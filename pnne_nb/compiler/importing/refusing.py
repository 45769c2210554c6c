"""Finds out whether the code that branches only checks: ``assert x.min() >= 0``, ``if mask.any(): raise ...``.

What only refuses an input decides nothing about what is computed, so an import goes on as if the input were good.
"""

from __future__ import annotations

import dis
from types import FrameType

_CONDITIONS = {"POP_JUMP_IF_TRUE": True, "POP_JUMP_FORWARD_IF_TRUE": True,
               "POP_JUMP_IF_FALSE": False, "POP_JUMP_FORWARD_IF_FALSE": False}  # fmt: skip
_BETWEEN = frozenset(("TO_BOOL", "NOT_TAKEN", "CACHE", "NOP", "COPY", "EXTENDED_ARG"))
"""What stands between the code that asks for a truth value and its jump."""

_ENDS = ("RETURN", "JUMP", "POP_JUMP", "FOR_ITER", "SEND", "YIELD", "STORE", "DELETE")
"""Beginnings of instructions that do more than to make an exception."""


def accepted(frame: FrameType) -> bool | None:
    """Return the answer with which the code at a frame's current instruction goes on, or None if it may with both."""
    steps = [step for step in dis.get_instructions(frame.f_code) if step.offset >= frame.f_lasti]
    place = next((i for i, step in enumerate(steps[1:], 1) if step.opname not in _BETWEEN), None)
    if steps and steps[0].opname in _CONDITIONS:
        place = 0
    if place is None or steps[place].opname not in _CONDITIONS:
        return None
    jumps = _CONDITIONS[steps[place].opname]
    target = next((i for i, step in enumerate(steps) if step.offset == steps[place].argval), None)
    on_jump = target is not None and _raises(steps[target:])
    on_pass = _raises(steps[place + 1 :])
    if on_jump == on_pass:
        return None
    return jumps if on_pass else not jumps


def _raises(steps: list[dis.Instruction]) -> bool:
    """Whether straight code ends in an exception."""
    for step in steps:
        if step.opname == "RAISE_VARARGS":
            return True
        if step.opname.startswith(_ENDS):
            return False
    return False
