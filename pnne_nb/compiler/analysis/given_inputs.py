"""Reads what a person gives as inputs: which parts of it are the arguments of a model."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from torch import Tensor, nn

from pnne_nb.errors import near
from pnne_nb.graph.document import NodeGraph

TARGET_KEYS: Final = ("target", "targets", "label", "labels", "y")
"""Under which of these a mapping holds what the loss compares with."""


def argument_names(model: nn.Module | NodeGraph) -> list[str] | None:
    """Return the names of what a model takes; None if it takes any number."""
    if isinstance(model, NodeGraph):
        return [node.name for node in model.nodes.values() if node.type == "Input"]
    found = inspect.signature(model.forward).parameters.values()
    return None if any(one.kind is one.VAR_POSITIONAL for one in found) else [one.name for one in found]


def spread_inputs(data: Any, names: Sequence[str] | None) -> Any:
    """Return ``((a, b), y)`` as ``(a, b, y)``, and ``({"a": a, "b": b}, y)`` by name, where a model takes a and b.

    Other data is returned as it is, and so is a pair whose first part a model takes as one argument.

    Args:
        data: What was given.
        names: Those of the model's arguments; None if it takes any number.
    """
    match data:
        case (tuple() as inputs, target) if isinstance(data, tuple) and _are_arrays(inputs):
            return (*inputs, target) if names is None or 1 < len(inputs) <= len(names) else data
        case (Mapping() as inputs, target) if isinstance(data, tuple) and _are_arrays(inputs.values()):
            fits = names is not None and set(inputs) <= set(names) and not set(TARGET_KEYS) & set(inputs)
            return {**inputs, TARGET_KEYS[0]: target} if fits else data
        case _:
            return data


def _are_arrays(values: Iterable[Any]) -> bool:
    return all(isinstance(value, Tensor | np.ndarray) and value.ndim for value in values)


def is_one_argument(mapping: Mapping[Any, Any], model: nn.Module) -> bool:
    """Return whether a mapping is itself what a model takes, as in ``forward(self, batch)``, and not its arguments by name.

    That is so if the model takes one argument, there are two keys or more, and none is the name of an argument or resembles
    one: a single other name is more likely a mistake.
    """
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except ValueError:  # a scripted module has no Python function
        return False
    if any(one.kind in {one.VAR_POSITIONAL, one.VAR_KEYWORD} for one in parameters):
        return False
    needed = [one for one in parameters if one.default is one.empty]
    names = [one.name for one in parameters]
    return len(needed) == 1 < len(mapping) and not any(key in names or near(key, names) for key in mapping)
