"""Reads arguments from Python signatures and type hints."""

from __future__ import annotations

import builtins
import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Literal

import torch

from pnne_nb.catalog.introspection.arguments import Argument, union
from pnne_nb.graph.schema.property_types import (
    BoolType,
    ConstantType,
    DeviceType,
    DtypeType,
    EnumType,
    FloatType,
    IntType,
    ListType,
    NumberType,
    OptionalType,
    PropertyType,
    StringType,
    TupleType,
)
from pnne_nb.graph.schema.spec import REQUIRED, Required
from pnne_nb.graph.schema.values import Value, to_json

_SCALARS: dict[object, PropertyType] = {
    bool: BoolType(),
    int: IntType(),
    float: FloatType(),
    complex: ConstantType(),
    str: StringType(),
    torch.dtype: DtypeType(),
    torch.device: DeviceType(),
    torch.Size: TupleType(IntType()),
    slice: ConstantType(),
}
_SEQUENCES = (list, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)


@functools.lru_cache(maxsize=1024)
def arguments(function: Callable[..., Any], *, method: bool = False) -> tuple[Argument, ...]:
    """Return the arguments of a Python function, in the order of its signature.

    Args:
        function: Has a Python signature; string annotations are resolved in its own module.
        method: Whether the first parameter is ``self``, and left out.
    """
    parameters = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ][1 if method else 0 :]
    hints: dict[str, object] = {}
    if any(isinstance(parameter.annotation, str) for parameter in parameters):
        known = getattr(inspect.unwrap(function), "__globals__", {})
        # Imports under TYPE_CHECKING are missing at run time; most are names of collections.abc.
        missing = {name: getattr(collections.abc, name) for name in collections.abc.__all__ if name not in known}
        if function.__module__.startswith("torch."):
            missing = _Known({**known, **missing})
        hints = typing.get_type_hints(function, localns=missing, include_extras=True)
    return tuple(argument(p, hints.get(p.name, p.annotation)) for p in parameters)


class _Known(dict[str, object]):
    """The names in a module of torch, with ``object`` for those that only a type checker knows."""

    def __missing__(self, name: str) -> object:
        return getattr(builtins, name, object)


def argument(parameter: inspect.Parameter, hint: object) -> Argument:
    """Return one parameter as an argument."""
    spread = parameter.kind is inspect.Parameter.VAR_POSITIONAL
    try:
        kind, variadic, typed = _allowed(hint)
    except TypeError:  # an Annotated with something that has no hash
        kind, variadic, typed = _allowed.__wrapped__(hint)
    default: Value | Required = REQUIRED
    if parameter.default is not inspect.Parameter.empty:
        default = constant(parameter.default)
    return Argument(
        name=parameter.name,
        kind=kind,
        type=typed,
        default=default,
        variadic=variadic or spread,
        spread=spread,
        positional=parameter.kind is not inspect.Parameter.KEYWORD_ONLY,
    )


@functools.lru_cache(maxsize=1024)  # int, Tensor and a few more stand at nearly all arguments
def _allowed(hint: object) -> tuple[Literal["tensor", "value"] | None, bool, PropertyType | None]:
    """Return an argument's port kind, whether it takes several edges, and its property type, from its hint."""
    return *_wired(hint), property_type(hint)


def constant(default: object) -> Value:
    """Return a default as a constant; functions and other objects by their names."""
    try:
        to_json(default)
    except TypeError:
        if isinstance(default, torch.dtype):
            return str(default).removeprefix("torch.")
        return getattr(default, "__name__", None)
    return typing.cast("Value", default)


def property_type(hint: object) -> PropertyType | None:
    """Return the property type of a hint, or None if its values cannot be typed in (a tensor, a module …)."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        declared = [item for item in args[1:] if isinstance(item, typing.get_args(PropertyType))]
        return declared[0] if declared else property_type(args[0])
    if origin is Literal:
        texts = tuple(arg for arg in args if isinstance(arg, str))
        return EnumType(texts) if texts else ConstantType()
    if origin in (typing.Union, types.UnionType):
        return _union(args)
    if origin is tuple:
        if args in ((), ((),)):
            return TupleType(ConstantType(), length=0 if args else None)
        items = [property_type(arg) for arg in args if arg is not Ellipsis]
        known = [item for item in items if item is not None]
        if len(known) < len(items):
            return None
        return TupleType(union(known), None if Ellipsis in args else len(items))
    if origin in _SEQUENCES and args:
        item = property_type(args[0])
        return None if item is None else ListType(item)
    return ConstantType() if origin is dict or hint in (dict, list, tuple) else None


def _union(args: tuple[object, ...]) -> PropertyType | None:
    numbers = {int, float, bool, complex} & {arg for arg in args if isinstance(arg, type)}
    options: list[PropertyType] = []
    if {int, float} <= numbers:
        options.append(NumberType())
        args = tuple(arg for arg in args if arg not in (int, float, bool))
    options.extend(kind for kind in map(property_type, args) if kind is not None)
    if not options:
        return None
    kind = union(options)
    return OptionalType(kind) if types.NoneType in args and not isinstance(kind, OptionalType) else kind


def _wired(hint: object) -> tuple[Literal["tensor", "value"] | None, bool]:
    """Return an argument's port kind and whether it takes several edges, from its hint."""
    if isinstance(hint, type) and issubclass(hint, torch.Tensor):
        return "tensor", False
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _wired(args[0])
    if origin in (typing.Union, types.UnionType):
        kinds = [kind for kind in map(_wired, args) if kind[0] is not None]
        return kinds[0] if kinds else (None, False)
    if origin in (*_SEQUENCES, tuple) and args and _wired(args[0])[0] == "tensor":
        return ("value", False) if origin is tuple and Ellipsis not in args else ("tensor", True)
    return None, False
