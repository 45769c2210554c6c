"""Quotes lines of the user's code, with file and line number."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import re
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeAlias

import torch
from torch import nn

Spot: TypeAlias = tuple[CodeType, int]
"""A line of code."""

_RANGE = re.compile(r'File "(.+?)", line (\d+)|^(.+?)\((\d+)\): ', re.MULTILINE)
"""The form in which torch writes the source lines of scripted and traced code."""

_LIBRARIES = tuple(f"{parent}{os.sep}" for parent in (Path(torch.__file__).parent, Path(__file__).parents[3]))
"""The folders of code that is not the user's: of torch, and of this package."""

MAX_LINE = 80
"""Characters of the longest line that a message repeats."""


def place_of(frame: FrameType) -> str:
    """Return the file and line of a frame, as ``"net.py, line 12"``."""
    return _place(frame.f_code.co_filename, frame.f_lineno)


def line_of(spot: Spot | None) -> str:
    """Return the place and the text of a line, or nothing: ``"net.py, line 12: x = x.view(-1, 4)"``."""
    if spot is None:
        return ""
    code, line = spot
    return _quoted(code.co_filename, line)


def line_number_of(spot: Spot | None) -> str:
    """Return a line as ``"line 31 of net.py"``."""
    if spot is None:
        return "its code"
    code, line = spot
    return f"line {line} of {_place(code.co_filename, line).rpartition(', ')[0]}"


def written_at(call: Any) -> str:
    """Return the place and the text of the first line of a function, or nothing for a function of torch's."""
    while isinstance(call, functools.partial):
        call = call.func
    code = getattr(inspect.unwrap(getattr(call, "__func__", call)), "__code__", None)
    home = str(getattr(call, "__module__", "")).partition(".")[0]
    return _quoted(code.co_filename, code.co_firstlineno) if code is not None and home != "torch" else ""


def module_at(module: nn.Module) -> str:
    """Return the place and the text of the line where a module's ``forward`` begins, or nothing for torch's own."""
    if isinstance(module, torch.jit.ScriptModule):
        return _scripted_at(module)
    return written_at(vars(module).get("forward", getattr(type(module), "forward", None)))


def with_line(reason: str, line: str) -> str:
    """Return a reason with a line of code, if it names none: ``"it is scripted (net.py, line 12)"``."""
    return f"{reason.rstrip('.')} ({line})" if line and ", line " not in reason else reason


def _scripted_at(module: Any) -> str:
    """Return a line of the code that a scripted module was made from, which its compiled form remembers."""
    try:
        ranges = [node.sourceRange() for node in module.inlined_graph.nodes()]
    except Exception:  # noqa: BLE001  # it may have no graph
        return ""
    found = [match for text in ranges for match in _RANGE.finditer(text)]
    spots = [(match[1] or match[3], int(match[2] or match[4])) for match in found]
    # A traced call also remembers the functions around it: those of torch, and of this package.
    return next((_quoted(*spot) for spot in spots if not spot[0].startswith(_LIBRARIES)), "")


def _quoted(file: str, line: int) -> str:
    text = linecache.getline(file, line).strip().rstrip(":")
    return _place(file, line) + (f": {text}" if 0 < len(text) <= MAX_LINE else "")


def _place(file: str, line: int) -> str:
    # Each kernel gives the file of a cell another name.
    return f"{'a cell' if file.startswith('<') or 'ipykernel' in file else Path(file).name}, line {line}"
