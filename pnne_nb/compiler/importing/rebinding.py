"""A ``forward`` that speaks of traced values where Python's own functions would settle them.

``len(x)`` and ``int(n / 2)`` return plain numbers whatever they are given, and ``math.sqrt`` does. The traced code sees
functions of ours under these names: in copies of the class's methods and of the functions beside them, so that nothing
that other code uses is replaced.
"""

from __future__ import annotations

import builtins
import math
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from pnne_nb.compiler.importing.values import Traced, TracedTensor, known, type_of

if TYPE_CHECKING:
    from pnne_nb.compiler.importing.tracing import Recorder


def rebound(cls: type[nn.Module], recorder: Recorder) -> Callable[..., Any]:
    """Return a class's ``forward``, which calls the class's other methods as copies too."""

    def run(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        spaces: dict[int, dict[str, Any]] = {}
        own: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            if base.__module__.partition(".")[0] in ("torch", "builtins"):
                continue
            for name, value in vars(base).items():
                if isinstance(value, staticmethod):
                    own[name] = staticmethod(_copy(value.__func__, recorder, spaces))
                elif isinstance(value, types.FunctionType) and not name.startswith("__"):
                    own[name] = _copy(value, recorder, spaces)
        original = module.__class__
        # Of this object, which is a private copy, alone.
        module.__class__ = type(
            cls.__name__, (cls,), {**own, "__module__": cls.__module__, "__reduce__": object.__reduce__}
        )
        try:
            return type(module).forward(module, *args, **kwargs)
        finally:
            module.__class__ = original

    return run


def _copy(function: Any, recorder: Recorder, spaces: dict[int, dict[str, Any]]) -> Any:
    if not isinstance(function, types.FunctionType):
        return function
    copied = types.FunctionType(
        function.__code__,
        _space(function.__globals__, recorder, spaces),
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__dict__.update(function.__dict__)
    return copied


def _space(original: dict[str, Any], recorder: Recorder, spaces: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return a copy of a module's names, in which its functions see the copy as well."""
    found = spaces.get(id(original))
    if found is not None:
        return found
    found = spaces[id(original)] = dict(original)
    replaced = _functions(recorder)
    for name, value in original.items():
        if isinstance(value, types.FunctionType) and _package(value.__globals__) == _package(original):
            found[name] = _copy(value, recorder, spaces)
        elif value is math:
            found[name] = _like(math, {each: replaced[each] for each in ("sqrt", "floor", "ceil")})
        elif value is torch:
            found[name] = _like(torch, {each: replaced[each] for each in ("finfo", "iinfo", "is_tensor")})
        elif value is math.sqrt or value is math.floor or value is math.ceil:
            found[name] = replaced[value.__name__]
    for name in ("len", "int", "isinstance"):
        if original.get(name, getattr(builtins, name)) is getattr(builtins, name):
            found[name] = replaced[name]
    return found


def _package(space: dict[str, Any]) -> str:
    return str(space.get("__name__", "")).partition(".")[0]


def _like(original: types.ModuleType, replaced: dict[str, Any]) -> types.ModuleType:
    module = types.ModuleType(original.__name__)
    vars(module).update({**vars(original), **replaced})
    return module


def _functions(recorder: Recorder) -> dict[str, Any]:
    def length(value: Any) -> int:
        if type(value) is TracedTensor:
            size: int = value.size(0)
            return size
        return len(value)

    def is_instance(value: Any, kind: Any) -> bool:
        stands_for = type_of(value)
        return isinstance(value, kind) or (stands_for is not type(value) and _is_subclass(stands_for, kind))

    def recorded(plain: Callable[..., Any], target: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            value = args[0] if len(args) == 1 else None
            if issubclass(type(value), Traced) and isinstance(value, (int, float)):
                return recorder.create_proxy("call_function", target, (value,), {})
            return plain(*args)

        return call

    return {
        "isinstance": is_instance,
        "is_tensor": lambda value: is_instance(value, torch.Tensor),
        "finfo": lambda dtype: torch.finfo(known(dtype)),
        "iinfo": lambda dtype: torch.iinfo(known(dtype)),
        "len": length,
        "int": _Integer("int", (int,), {"convert": staticmethod(recorded(int, math.trunc))}),
        "sqrt": recorded(math.sqrt, math.sqrt),
        "floor": recorded(math.floor, math.floor),
        "ceil": recorded(math.ceil, math.ceil),
    }


def _is_subclass(kind: type, parent: Any) -> bool:
    return any(_is_subclass(kind, each) for each in parent) if isinstance(parent, tuple) else issubclass(kind, parent)


class _Integer(type):
    """Type of what stands for ``int``, in calls and in ``isinstance``."""

    convert: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return int(*args, **kwargs) if kwargs else cls.convert(*args)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, int)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, int)
