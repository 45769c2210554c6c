"""Runs a module once in each mode and keeps what each submodule was given and returned.

Of tensors only the shape, element type and device are kept, as tensors on the meta device.
"""

from __future__ import annotations

import contextlib
import copy
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn

from pnne_nb.compiler.copying import duplicate
from pnne_nb.compiler.importing.values import UNKNOWN
from pnne_nb.compiler.running import describe
from pnne_nb.compiler.verifying import copied, private_random_state
from pnne_nb.errors import CompileError, Diagnostic


@dataclass(eq=False)
class Frame:
    """One call of one module.

    Attributes:
        path: Of the module.
        args: By position.
        kwargs: By name.
        result: What it returned.
        inner: The calls that it made, in order.
    """

    path: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    result: Any = None
    inner: list[Frame] = field(default_factory=list)

    @cached_property
    def calls(self) -> dict[str, list[Frame]]:
        """The calls that it made, by path; to be asked for when it is over."""
        found: dict[str, list[Frame]] = {}
        for frame in self.inner:
            found.setdefault(frame.path, []).append(frame)
        return found


Frames = dict[bool, Frame]
"""A call in training mode (True) and in evaluation mode; one of them may be missing."""


def observe(net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Frames:
    """Call `net` in both modes: in evaluation mode as it is, in training mode without data where that suffices.

    Raises:
        CompileError: If it can be called in neither of them.
    """
    frames: Frames = {}
    failure: Exception | None = None
    try:
        frames[False] = _call(duplicate(net), args, kwargs, training=False)
    except Exception as error:  # noqa: BLE001  # whatever it is, the other mode may do
        failure = error
    try:
        frames[True] = _call(duplicate(net, outlined), outlined(args), outlined(kwargs), training=True)
    except Exception:  # noqa: BLE001  # something goes by the data
        try:
            frames[True] = _call(duplicate(net), args, kwargs, training=True)
        except Exception as error:  # noqa: BLE001  # as above
            failure = failure or error
    if False in frames or (frames and failure is None):
        return frames
    if True in frames:
        with contextlib.suppress(Exception):
            # Without data, it may take what it would refuse.
            return {True: _call(duplicate(net), args, kwargs, training=True)}
    shown = ", ".join([*map(describe, args), *(f"{name}={describe(value)}" for name, value in kwargs.items())])
    message = f"{type(net).__name__} cannot be called with ({shown}): {failure}"
    hint = "Pass args and kwargs that the module takes."
    if any(module._forward_hooks or module._forward_pre_hooks for module in net.modules()):
        hint += " Or its hooks, which still speak of the original, are in the way of calling a copy of it: remove them."
    raise CompileError(message, [Diagnostic(code="bad-inputs", message=message, hint=hint)]) from failure


def _call(net: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, training: bool) -> Frame:
    root = Frame("")
    stack = [root]
    for path, module in net.named_modules():
        if "forward" not in vars(module):
            vars(module)["forward"] = _watched(module.forward, path, stack)
    given = copied((args, kwargs))
    with private_random_state(), torch.no_grad():
        net.train(training)(*given[0], **given[1])
    return root.inner[0] if root.inner else Frame("")


def _watched(forward: Callable[..., Any], path: str, stack: list[Frame]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        frame = Frame(path, outlined(args), outlined(kwargs))
        stack[-1].inner.append(frame)
        stack.append(frame)
        result = forward(*args, **kwargs)
        frame.result = outlined(result)
        stack.pop()
        return result

    return run


def outlined(value: Any) -> Any:
    """Return a value with tensors without data in place of its tensors; `UNKNOWN` for what cannot be without."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.is_quantized:
            return UNKNOWN
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        try:
            return type(value)(*map(outlined, value))
        except Exception:  # noqa: BLE001  # a class may ask anything of its parts
            return UNKNOWN
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(map(outlined, value))
    if type(value) in (dict, OrderedDict):
        return {key: outlined(each) for key, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return with_fields(value, {name: outlined(each) for name, each in fields_of(value).items()})
    return value


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a data class's object by name."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def with_fields(value: Any, new: dict[str, Any]) -> Any:
    """Return an object of the same data class with other values in its fields."""
    changed = copy.copy(value)
    for name, each in new.items():
        if getattr(value, name) is not each:
            object.__setattr__(changed, name, each)
            if isinstance(changed, dict) and name in changed:
                dict.__setitem__(changed, name, each)
    return changed
