"""Checks the arguments with which tools call a module."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import nn

from pnne_nb.compiler.analysis.example_inputs import sizes_among
from pnne_nb.errors import InspectionError, expect


def as_arguments(args: object) -> tuple[object, ...]:
    """Return `args` as positional arguments: a tuple as it is, anything else as the only argument.

    A named tuple (a ``PackedSequence``) is one argument.
    """
    return args if isinstance(args, tuple) and not hasattr(args, "_fields") else (args,)


def call_arguments(args: object) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return positional and keyword arguments from a tuple, a mapping of keywords, or the only argument."""
    if isinstance(args, Mapping):
        return (), {str(name): value for name, value in args.items()}
    return as_arguments(args), {}


def as_keywords(kwargs: object) -> dict[str, Any]:
    """Return `kwargs` as keyword arguments.

    Raises:
        ArgumentError: If they are no mapping.
    """
    expect(kwargs, Mapping | None, "kwargs", "a mapping of the model's keyword arguments by name")
    return dict(kwargs) if isinstance(kwargs, Mapping) else {}


@contextmanager
def fitting(model: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Iterator[None]:
    """Explain a failed call of `model` in this block whose arguments do not fit its ``forward``.

    Arguments are checked only after a call has failed, because hooks of the model may change them.

    Raises:
        InspectionError: If ``forward`` does not take the arguments, or a layer does not take a NumPy array among them.
    """
    try:
        yield
    except TypeError as error:
        misfit = why_not_callable(model.forward, args, kwargs)
        if misfit is not None:
            sizes = sizes_among(args)
            such = "" if sizes is None else f", such as torch.randn{sizes!r}"
            raise InspectionError(
                f"{type(model).__name__}.forward{_signature(model.forward)} cannot be called with"
                f" {_given(args, kwargs)}: {misfit}. Pass an example of its input{such}: one argument as it is, several as"
                " a tuple."
            ) from error
        if any(isinstance(value, np.ndarray) for value in (*args, *kwargs.values())):
            raise InspectionError(
                f"The model does not take a NumPy array ({error}). Give it tensors: torch.from_numpy(data)."
            ) from error
        raise


def why_not_callable(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> str | None:
    """Return why `function` does not take these arguments, or None if it does or its signature is unknown."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None


def _signature(function: Callable[..., object]) -> str:
    """Return the names of the arguments, without types: ``(x, mask=None)``."""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(parameters))


def _given(args: tuple[object, ...], kwargs: Mapping[str, object]) -> str:
    kinds = [type(value).__name__ for value in args]
    kinds += [f"{name}={type(value).__name__}" for name, value in kwargs.items()]
    return f"({', '.join(kinds)})" if kinds else "no argument"
