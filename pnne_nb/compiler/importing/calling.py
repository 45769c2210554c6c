"""How a submodule is called: the names of its arguments, and one form for calls that mean the same."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import nn

from pnne_nb.compiler.importing.values import Traced, TracedTuple
from pnne_nb.graph.ports import KEYWORDS

_CARRIED = (
    type(None), bool, int, float, complex, str, slice, type(Ellipsis), np.generic, torch.Tensor, torch.dtype,
    torch.device, torch.memory_format, torch.layout,
)  # fmt: skip
"""What ports and properties carry."""

_PLAIN = (bool, int, float, str, type(None))


@final
class Slot:
    """A place in a call's arguments where a computed value arrives.

    Attributes:
        name: Of the argument.
        tensor: Whether the value is a tensor.
        only: The value that alone may arrive, if there is one.
    """

    def __init__(self, name: str, *, tensor: bool, only: tuple[()] | tuple[Any] = ()) -> None:
        self.name = name
        self.tensor = tensor
        self.only = only


Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments, with `Slot` where values arrive."""


def can_be_passed(value: Any) -> bool:
    """Whether ports and properties can carry an argument."""
    if isinstance(value, (tuple, list)):
        return all(map(can_be_passed, value))
    if type(value) in (dict, OrderedDict):
        return all(map(can_be_passed, value.values()))
    return issubclass(type(value), Traced) or isinstance(value, _CARRIED)


def opened(value: Any) -> Any:
    """Return arguments with several results that are passed on as one taken apart, as each call may have them anew."""
    if type(value) is TracedTuple and holds_tensors(value.value):
        return tuple(map(opened, value))
    if type(value) in (tuple, list):
        return type(value)(map(opened, value))
    return {k: opened(v) for k, v in value.items()} if type(value) in (dict, OrderedDict) else value


def holds_tensors(value: Any) -> bool:
    """Whether a value is several results, and tensors among them."""
    return type(value) is tuple and any(isinstance(part, torch.Tensor) or holds_tensors(part) for part in value)


def one_form(
    called: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call by position where that is possible, without constants that are the default.

    What training calls ``block(x, None)`` and evaluation ``block(x=x)`` is then one call.
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
    """Return the ports of a module that is kept as it is: its arguments by name, after `KEYWORDS` by keyword only.

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


def _parameters(called: nn.Module) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(type(called).forward).parameters.values())[1:]
    except (AttributeError, TypeError, ValueError):
        return []  # scripted modules tell nothing
