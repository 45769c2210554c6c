"""Inspects the frames of traced code: its checkpoints, branches that only raise, variables, and failed functions."""

from __future__ import annotations

import dis
import inspect
import sys
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from traceback import walk_tb
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

from torch import nn
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
"""Beginnings of instructions that do more than make an exception; variables of the call are none of them."""


def is_checkpointed(frame: FrameType | None, until: CodeType) -> bool:
    """Return whether a frame, called by code `until`, runs inside ``torch.utils.checkpoint.checkpoint``."""
    while frame is not None and frame.f_code is not until:
        if frame.f_code.co_filename == checkpointing.__file__ or frame.f_code is plainly.__code__:
            return True
        frame = frame.f_back
    return False


def applied(frame: FrameType | None, until: CodeType) -> str:
    """Return the autograd function inside whose ``forward`` a frame, called by code `until`, runs; or nothing."""
    # The frame of ``apply`` does not tell: from torch 2.15 on, it is no Python frame.
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
        name: Its name.
        part: Whether it holds one of several parts of a value that the code unpacks.
    """

    name: str
    part: bool


def variable(frame: FrameType | None, part: object) -> Variable | None:
    """Return the variable in which the traced code stores the result of a call.

    Args:
        frame: The frame of the call.
        part: The index of the part, where the code unpacks the value.
    """
    while frame is not None and frame.f_globals is not vars(decompositions):  # which makes values in between
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
    """Return the tensor whose element type a number takes in ``Normal(x, 1)``, which does not take a proxy for a tensor."""
    if frame.f_code.co_name == "<listcomp>" and frame.f_back is not None:
        frame = frame.f_back
    values = frame.f_locals.get("values", ()) if frame.f_code is broadcast_all.__code__ else ()
    return next((each for each in values if type(each) is TracedTensor), None)


def is_literal(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether ``torch.tensor`` is given numbers alone: its element type is then the default one."""
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
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]  # of decorators, too
    for caller, callee in reversed(list(pairwise(frames))):
        if isinstance(caller.f_globals, Names):
            found = _function(callee)
            if found is not None:
                return found
    return None


def reason_of(error: Exception, module: nn.Module) -> str:
    """Return in words why the ``forward`` of a module cannot be traced, with its line."""
    lines = str(error).strip().splitlines()
    said = lines[0] if lines else type(error).__name__
    if not isinstance(error, UntranslatableError):
        said = f"its forward cannot be traced: {shared_state(module) or said}"
    spot: Spot | None = None
    for frame, line in walk_tb(error.__traceback__):
        if is_followed(frame):
            spot = (frame.f_code, line)
        elif "_functorch" in frame.f_code.co_filename:
            said = "it transforms a function, as torch.vmap and torch.func.grad do, and no node holds a function"
    return f"{said} ({line_of(spot)})" if spot is not None else said


def shared_state(module: nn.Module) -> str:
    """Return in words which list, dictionary or set a module shares with a submodule; empty if there is none.

    The calls of a submodule are recorded, not made, so that what they do to it is not seen.
    """
    own = {id(value): name for name, value in vars(module).items() if isinstance(value, (list, dict, set, deque))}
    for path, part in module.named_modules():
        for name, value in vars(part).items() if path else ():
            if id(value) in own:
                return (
                    f"its {own[id(value)]} is also {path}.{name}, and what {path} does with it is not seen here: have "
                    f"{path} return the values instead"
                )
    return ""


def plain_place(module: nn.Module, tensor: Any) -> str:
    """Return in words in which plain list or dictionary of a module a parameter is, and what to use instead; else empty."""
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            if name.startswith("_") or not isinstance(value, (list, tuple, dict)):
                continue
            kind, suffix = ("dict", "Dict") if isinstance(value, dict) else (type(value).__name__, "List")
            said = f"in a plain {kind}, which torch neither trains nor saves: use an nn."
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                whole = f"self.{path}{'.' if path else ''}{name}[{key!r}]"
                if each is tensor:
                    return f"it uses {whole}, a Parameter {said}Parameter{suffix}"
                if isinstance(each, nn.Module) and any(tensor is own for own in each.parameters()):
                    return f"it calls {whole}, a module {said}Module{suffix}"
    return ""


def failed_at(error: BaseException | None) -> tuple[int, str]:
    """Return the line of a person's own code in which a module failed, and the message with that line."""
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    found: Spot | None = None
    for frame, line in walk_tb(error.__traceback__ if error is not None else None):
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in ("torch", "pnne_nb"):
            found = (frame.f_code, line)
    return (found[1], f"{said} ({line_of(found)})") if found is not None else (0, said)


def _function(frame: FrameType) -> Any:
    """Return the function of a module that a frame runs, or None for methods and functions inside functions."""
    home = sys.modules.get(str(frame.f_globals.get("__name__", "")))
    if home is None or home.__name__.startswith("pnne_nb.compiler"):
        return None
    found = vars(home).get(frame.f_code.co_qualname)
    if not isinstance(found, FunctionType):
        return None
    return found if frame.f_code in (found.__code__, getattr(inspect.unwrap(found), "__code__", None)) else None
