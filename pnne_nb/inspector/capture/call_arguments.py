"""Checks the arguments with which tools call a module, and says in which layer a call has failed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, final

import numpy as np
from torch import Tensor, nn

from pnne_nb.compiler.analysis.example_inputs import is_one_argument, sizes_among
from pnne_nb.errors import InspectionError, expect
from pnne_nb.inspector.capture.hooks import HookOwner, in_backward, tensors_in


def as_arguments(args: object) -> tuple[object, ...]:
    """Return `args` as positional arguments: a tuple as it is, anything else as the only argument.

    A named tuple (a ``PackedSequence``) is one argument.
    """
    return args if isinstance(args, tuple) and not hasattr(args, "_fields") else (args,)


def call_arguments(args: object, model: nn.Module) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return positional and keyword arguments from a tuple, a mapping of keywords, or the only argument."""
    if isinstance(args, Mapping) and not is_one_argument(args, model):
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
def placed(model: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Iterator[None]:
    """Add a note to an error that `model` raises in this block: the layer, and the tensors that it received.

    Raises:
        InspectionError: If ``forward`` does not take the arguments.
    """
    with _fitting(model, args, kwargs), HookOwner() as hooks:
        running = _Running(model, hooks)
        try:
            yield
        except Exception as error:
            note = running.why()
            if note is not None:
                error.add_note(note)
            raise


@final
class _Running:
    """The stack of layers that are being called, each with the tensors that it received."""

    def __init__(self, model: nn.Module, hooks: HookOwner) -> None:
        self._stack: list[tuple[str, nn.Module, list[Tensor]]] = []
        self._modules = dict(model.named_modules())
        hooks.on_calls(model, self._enter, self._leave)

    def why(self) -> str | None:
        if not self._stack:
            return None
        name, module, inputs = self._stack[-1]
        kind = type(module).__name__
        where = f"in layer {name!r} ({kind})" if name else f"in the model ({kind})"
        received = ", ".join(map(described, inputs))
        devices = sorted({str(parameter.device) for parameter in module.parameters()})
        owns = f"; its parameters are on {', '.join(devices)}" if devices else ""
        return f"While inspecting, {where}, which received {received or 'no tensor'}{owns}."

    def _enter(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if not in_backward():
            self._stack.append((name, self._modules[name], [tensor for _, tensor in tensors_in((args, kwargs))]))

    def _leave(self, _name: str, _output: object) -> None:
        if not in_backward():
            self._stack.pop()


def described(tensor: Tensor) -> str:
    """Return shape, dtype and device of a tensor for a message."""
    shape = "nested" if tensor.is_nested else str(list(tensor.shape))
    return f"{shape} {str(tensor.dtype).removeprefix('torch.')} on {tensor.device}"


@contextmanager
def _fitting(model: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Iterator[None]:
    """Explain a failed call whose arguments do not fit `model`; only then, because hooks of the model may change them."""
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
