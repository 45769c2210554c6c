"""Finds the node that caused an exception or a non-finite number."""

from __future__ import annotations

import gc
import inspect
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from pnne_nb.compiler import blame, generated


def node_of(error: BaseException, model: nn.Module) -> str | None:
    """Return the path of the node that raised `error`, as on screen; None if it came from elsewhere.

    In a module that was not made from a graph, the deepest of its submodules on the traceback is meant.
    """
    named = blame(error)
    if named is not None:
        return named
    paths = {id(module): path for path, module in model.named_modules() if path}
    found = None
    trace = error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_locals.get("self")
        if isinstance(module, nn.Module):
            found = paths.get(id(module), found)
        trace = trace.tb_next
    return found


def drop_locals(error: BaseException) -> None:
    """Drop the local variables of the calls that failed, which would keep a step's tensors as long as the error.

    The traceback stays as it is printed. Calls that still run keep their variables. What is read out of them
    (`node_of`) must be read before.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        traceback.clear_frames(current.__traceback__)
        _empty_closures(current)
        for frame, _ in traceback.walk_tb(current.__traceback__):
            # Before Python 3.13, a frame keeps the variables that were read, until they are read again.
            _ = frame.f_locals
        pending += [current.__cause__, current.__context__]
        pending += current.exceptions if isinstance(current, BaseExceptionGroup) else ()


def _empty_closures(error: BaseException) -> None:
    """Empty the variables around torch's own inner functions in a traceback: clearing a frame leaves those as they are."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if not frame.f_code.co_freevars or frame.f_code.co_filename != inspect.getfile(nn.Module):
            continue
        for function in gc.get_referents(frame):
            if isinstance(function, FunctionType) and function.__code__ is frame.f_code:
                for cell in function.__closure__ or ():
                    cell.cell_contents = None


def output_not_finite(model: nn.Module, inputs: Sequence[Any], named: Mapping[str, Any]) -> str | None:
    """Repeat the forward pass, and return the path of the first module with a non-finite output."""
    found: list[str] = []

    def watcher(path: str) -> Callable[[nn.Module, Any, Any], None]:
        def watch(module: nn.Module, received: Any, output: Any) -> None:
            del module, received
            if not found and isinstance(output, Tensor) and not output.isfinite().all():
                found.append(path)

        return watch

    hooks = [module.register_forward_hook(watcher(path)) for path, module in model.named_modules() if path]
    try:
        with torch.no_grad():
            model(*inputs, **named)
    except (RuntimeError, TypeError):
        # A step function may call the model in another way; then the place stays unknown.
        return None
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None


def gradient_not_finite(model: nn.Module) -> str | None:
    """Return the path of the last node, in the order of the model, with a gradient that is NaN or infinite."""
    found = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is not None and not parameter.grad.isfinite().all()
    ]
    return _node_with(found[-1], model) if found else None


def _node_with(parameter: str, model: nn.Module) -> str:
    """Return the path of the layer that a parameter belongs to; a Parameter node is one itself."""
    path = parameter.rpartition(".")[0]
    drawn = type(model.get_submodule(path)).__module__.startswith(f"{generated.__name__}.")
    return path if path and not drawn else parameter
