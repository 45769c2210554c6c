"""Tracebacks of what fails in a compiled model, without the lines that say nothing about it.

Between two lines of a model stand several of torch's, which call the next module. They are left out, and so is what
torch does between lines of the model and of a person's own code, and what its private parts do, such as those that
compile. What it was doing when it failed stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, TracebackType

from torch import nn


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


_CALLING = tuple(
    code for call in (nn.Module._wrapped_call_impl, nn.Module._call_impl) for code in _codes(call.__code__)
)
"""What calls the ``forward`` of a module."""


def shorten(error: BaseException, around: CodeType) -> None:
    """Leave out of the traceback of an exception what leads from one line to the next.

    Args:
        error: It is about to leave a model.
        around: The code that calls the model, and has caught it.
    """
    steps = [step for step in _steps(error.__traceback__) if step.tb_frame.f_code not in (*_CALLING, around)]
    modules = [str(step.tb_frame.f_globals.get("__name__", "")).split(".") for step in steps]
    own = max((index for index, module in enumerate(modules) if module[0] != "torch"), default=-1)
    following = None
    for index in range(len(steps) - 1, -1, -1):
        public = not any(part.startswith("_") for part in modules[index])
        if modules[index][0] != "torch" or index == len(steps) - 1 or (index > own and public):
            step = steps[index]
            following = TracebackType(following, step.tb_frame, step.tb_lasti, step.tb_lineno)
    error.__traceback__ = following


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next
