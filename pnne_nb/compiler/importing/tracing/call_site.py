"""Inspects the frames of traced code: its checkpoints, branches that only raise, variables, and failed functions."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, NamedTuple

from torch.autograd import Function
from torch.distributions.utils import broadcast_all
from torch.utils import _pytree as pytree
from torch.utils import checkpoint as checkpointing

from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.draft.source_lines import Spot, line_of
from pnne_nb.compiler.importing.draft.variable_names import RETURNED, stored
from pnne_nb.compiler.importing.tracing import decompositions
from pnne_nb.compiler.importing.tracing.patched_functions import Names, plainly
from pnne_nb.compiler.importing.tracing.proxies import TracedTensor

_CONDITIONS = {"POP_JUMP_IF_TRUE": True, "POP_JUMP_FORWARD_IF_TRUE": True,
               "POP_JUMP_IF_FALSE": False, "POP_JUMP_FORWARD_IF_FALSE": False}  # fmt: skip

_BETWEEN = frozenset(("TO_BOOL", "NOT_TAKEN", "CACHE", "NOP", "COPY", "EXTENDED_ARG"))
"""Instructions between a truth test and its jump."""

_ENDS = ("RETURN", "JUMP", "POP_JUMP", "FOR_ITER", "SEND", "YIELD", "STORE", "DELETE")
"""Beginnings of instructions that do more than to make an exception; a variable that goes with the call does not."""


def is_checkpointed(frame: FrameType | None, until: CodeType) -> bool:
    """Return whether a frame, called by code `until`, runs inside ``torch.utils.checkpoint.checkpoint``."""
    while frame is not None and frame.f_code is not until:
        if frame.f_code.co_filename == checkpointing.__file__ or frame.f_code is plainly.__code__:
            return True
        frame = frame.f_back
    return False


def applied(frame: FrameType | None, until: CodeType) -> str:
    """Return the autograd function inside whose ``forward`` a frame, called by code `until`, runs; or nothing."""
    # Not by the frame of ``apply``: from torch 2.15 on, that is no Python.
    names = {getattr(kind.forward, "__code__", None): kind.__name__ for kind in _functions(Function)}
    while frame is not None and frame.f_code is not until:
        if frame.f_code in names:
            return names[frame.f_code]
        frame = frame.f_back
    return ""


def _functions(kind: type[Function]) -> Iterator[type[Function]]:
    for below in kind.__subclasses__():
        yield below
        yield from _functions(below)


def asking(frame: FrameType) -> FrameType:
    """Return the innermost frame outside of this package."""
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(
        "pnne_nb.compiler.importing"
    ):
        frame = frame.f_back
    return frame


def spot_of(frame: FrameType | None) -> Spot | None:
    """Return the innermost line of traced code around a frame."""
    while frame is not None and not is_followed(frame):
        frame = frame.f_back
    return None if frame is None else (frame.f_code, frame.f_lineno)


def is_followed(frame: FrameType) -> bool:
    """Return whether a frame runs traced code, and not code of other packages that it calls."""
    return isinstance(frame.f_globals, Names)


class Variable(NamedTuple):
    """A variable of traced code.

    Attributes:
        name: Of the variable.
        part: Whether it holds one of several parts that the code takes a value apart into.
    """

    name: str
    part: bool


def variable(frame: FrameType | None, part: object) -> Variable | None:
    """Return the variable in which the traced code stores the result of a call.

    Args:
        frame: Of the call.
        part: Which part of a value it is, where the code takes that apart.
    """
    while frame is not None and frame.f_globals is not vars(decompositions):  # which has values of its own
        if is_followed(frame):
            found = stored(frame)
            if isinstance(found, tuple):
                name = found[part] if isinstance(part, int) and 0 <= part < len(found) else ""
                return Variable(name, part=True) if name else None
            if found is not RETURNED:
                return Variable(str(found), part=False) if found else None
        frame = frame.f_back
    return None


def beside(frame: FrameType) -> TracedTensor | None:
    """Return the tensor whose element type a number takes in ``Normal(x, 1)``, which does not know a proxy for one."""
    if frame.f_code.co_name == "<listcomp>" and frame.f_back is not None:
        frame = frame.f_back
    values = frame.f_locals.get("values", ()) if frame.f_code is broadcast_all.__code__ else ()
    return next((each for each in values if type(each) is TracedTensor), None)


def is_literal(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether ``torch.tensor`` is given numbers alone: the default element type then decides about its result."""
    leaves = pytree.tree_leaves(args)
    return len(args) == 1 and not kwargs and float in map(type, leaves) and {*map(type, leaves)} <= {int, float}


def accepted(frame: FrameType) -> bool | None:
    """Return the answer for which the branch at this instruction does not raise; None if neither or both raise."""
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
    """Return whether straight code ends in an exception."""
    for step in steps:
        if step.opname == "RAISE_VARARGS":
            return True
        if step.opname.startswith(_ENDS) and step.opname != "STORE_FAST":
            return False
    return False


def outside(error: BaseException) -> Any:
    """Return the innermost function that traced code called and that raised an exception, or None."""
    frames = list(_frames(error.__traceback__))
    for caller, callee in reversed(list(pairwise(frames))):
        if isinstance(caller.f_globals, Names):
            found = _function(callee)
            if found is not None:
                return found
    return None


def reason_of(error: Exception) -> str:
    """Return in words why a ``forward`` cannot be traced, with the line of it."""
    lines = str(error).strip().splitlines()
    said = lines[0] if lines else type(error).__name__
    if not isinstance(error, UntranslatableError):
        said = f"its forward cannot be traced: {said}"
    spot: Spot | None = None
    place = error.__traceback__
    while place is not None:
        if is_followed(place.tb_frame):
            spot = (place.tb_frame.f_code, place.tb_lineno)
        elif "_functorch" in place.tb_frame.f_code.co_filename:
            said = "it transforms a function, as torch.vmap and torch.func.grad do, and no node holds a function"
        place = place.tb_next
    return f"{said} ({line_of(spot)})" if spot is not None else said


def failed_at(error: BaseException | None) -> tuple[int, str]:
    """Return the line of a person's own code in which a module failed, and what to say of it."""
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    place, found = error.__traceback__ if error is not None else None, None
    while place is not None:
        home = str(place.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        found = place if home not in ("torch", "pnne_nb") else found
        place = place.tb_next
    if found is None:
        return 0, said
    return found.tb_lineno, f"{said} ({line_of((found.tb_frame.f_code, found.tb_lineno))})"


def _frames(place: TracebackType | None) -> Any:
    while place is not None:
        # A decorator's own frame stands between the call and what it wraps.
        yield place.tb_frame
        place = place.tb_next


def _function(frame: FrameType) -> Any:
    """Return the function of a module that a frame runs, or None for methods and functions inside functions."""
    home = sys.modules.get(str(frame.f_globals.get("__name__", "")))
    if home is None or home.__name__.startswith("pnne_nb.compiler"):
        return None
    found = vars(home).get(frame.f_code.co_qualname)
    return found if isinstance(found, FunctionType) and _runs(found, frame.f_code) else None


def _runs(function: Any, code: CodeType) -> bool:
    return getattr(inspect.unwrap(function), "__code__", None) is code or function.__code__ is code
