"""Normalises calls of a submodule: one form for equal calls, and names for the ports."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.importing.draft.draft import UntranslatableError
from pnne_nb.compiler.importing.tracing.proxies import Traced, TracedTuple, is_plain_object
from pnne_nb.graph.model.content import KEYWORDS

_CARRIED = (
    type(None), bool, int, float, complex, str, slice, type(Ellipsis), np.generic, torch.Tensor, torch.dtype,
    torch.device, torch.memory_format, torch.layout,
)  # fmt: skip
"""What ports and properties carry."""

_PLAIN = (bool, int, float, str, type(None))


@final
@dataclass(eq=False)
class Slot:
    """A position in a call's arguments that receives a computed value.

    Attributes:
        name: The name of the argument.
        tensor: Whether the value is a tensor.
        only: The only value that is accepted, if there is one.
    """

    name: str
    tensor: bool
    only: tuple[()] | tuple[Any] = ()


def slot_of(name: str, value: Any, *, computed: bool) -> Slot:
    """Return the slot of an argument of the outermost call; without a tensor in it, the argument is a constant.

    Args:
        name: The name of the argument.
        value: Its value in the example.
        computed: Whether numbers and objects may differ from call to call, as tensors do.

    Raises:
        UntranslatableError: If no node can compare the constant with that of another call.
    """
    is_tensor = isinstance(value, torch.Tensor)
    several = isinstance(value, (tuple, list, dict)) and any(
        isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(value)
    )
    free = type(value) in (int, float) or is_plain_object(value)
    if is_tensor or several or (computed and free):
        return Slot(name, tensor=is_tensor)
    if not _is_plain(value):
        kind = type(value).__name__
        raise UntranslatableError(f"its argument {name} is a {kind}, which no node compares with that of the next call")
    return Slot(name, tensor=False, only=(value,))


def _is_plain(value: Any) -> bool:
    if type(value) is dict:
        return all(isinstance(key, str) for key in value) and all(map(_is_plain, value.values()))
    if type(value) in (tuple, list):
        return all(map(_is_plain, value))
    return isinstance(value, (*_PLAIN, torch.dtype))


Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments, with `Slot` where values arrive."""


def can_be_passed(value: Any) -> bool:
    """Return whether ports and properties can carry an argument."""
    if issubclass(type(value), Traced):
        return True
    if isinstance(value, (tuple, list)):
        return all(map(can_be_passed, value))
    if type(value) in (dict, OrderedDict):
        return all(map(can_be_passed, value.values()))
    return isinstance(value, _CARRIED)


def opened(value: Any) -> Any:
    """Return arguments with tuples of results unpacked, so that each call may have its own."""
    if type(value) is TracedTuple and holds_tensors(value.value):
        return tuple(map(opened, value))
    if type(value) in (tuple, list):
        return type(value)(map(opened, value))
    return {k: opened(v) for k, v in value.items()} if type(value) in (dict, OrderedDict) else value


def holds_tensors(value: Any) -> bool:
    """Return whether a value is a tuple or list with tensors."""
    return type(value) is tuple and any(isinstance(part, torch.Tensor) or holds_tensors(part) for part in value)


def one_form(
    called: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call by position where possible, without constants that equal the default.

    ``block(x, None)`` in training and ``block(x=x)`` in evaluation are then one call.
    """
    parameters = _parameters(called)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) or len(args) > len(parameters):
        return args, kwargs
    given = {**{p.name: value for p, value in zip(parameters, args, strict=False)}, **kwargs}
    for parameter in parameters:
        if parameter.name in given and _is_default(given[parameter.name], parameter.default):
            del given[parameter.name]
    found = []
    for parameter in parameters:
        if parameter.name not in given or parameter.kind is parameter.KEYWORD_ONLY:
            break
        found.append(given.pop(parameter.name))
    order = [p.name for p in parameters if p.name in given]
    return tuple(found), {name: given[name] for name in dict.fromkeys([*order, *given])}


def _is_default(value: Any, default: Any) -> bool:
    if issubclass(type(value), Traced):
        return False
    return isinstance(value, _PLAIN) and type(value) is type(default) and bool(value == default)


def port_names(called: nn.Module, positional: int, keywords: Sequence[str]) -> tuple[str, ...]:
    """Return the ports of an opaque module: its arguments by name, keyword-only ones after `KEYWORDS`.

    Args:
        called: The module.
        positional: How many arguments it is given by position.
        keywords: Names of those that it is given by keyword.
    """
    parameters = _parameters(called)
    names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    name = parameter_names(called)
    found = [name(index) for index in range(positional)]
    waiting = list(keywords)
    for each in names[positional:]:
        if each not in waiting:
            break
        waiting.remove(each)
        found.append(each)
    return (*found, KEYWORDS, *waiting) if waiting else tuple(found)


def parameter_names(called: nn.Module) -> Callable[[int], str]:
    """Return a function that names the positional arguments of a module's ``forward``."""
    parameters = _parameters(called)
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    spread = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "input")
    return lambda index: names[index] if index < len(names) else f"{spread}_{index - len(names)}"


def named_arguments(called: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the arguments of a call with their names, those by position first."""
    name = parameter_names(called)
    return [(name(index), value) for index, value in enumerate(args)] + list(kwargs.items())


def argument_names(called: nn.Module) -> list[str]:
    """Return the names of the arguments of a module's ``forward`` that can be passed by keyword."""
    return [p.name for p in _parameters(called) if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def optional_names(called: nn.Module) -> list[str]:
    """Return the names of the arguments of a module's ``forward`` that are None if a call leaves them out."""
    return [p.name for p in _parameters(called) if p.default is None]


def forward_of(module: nn.Module) -> Callable[..., Any]:
    """Return the ``forward`` of a module's class for a call with the arguments alone; it may be a static method."""
    kind = type(module)
    is_bound = isinstance(inspect.getattr_static(kind, "forward"), (staticmethod, classmethod))
    return kind.forward if is_bound else partial(kind.forward, module)


def _parameters(called: nn.Module) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(forward_of(called)).parameters.values())
    except (AttributeError, TypeError, ValueError):
        return []  # scripted modules tell nothing
