"""Runs a model once, captures what is watched, and restores the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.errors import ArgumentError, InspectionError, shown
from pnne_nb.inspector.capture.call_arguments import call_arguments, described, placed, why_not_callable
from pnne_nb.inspector.capture.capture import Capture, Recorder
from pnne_nb.inspector.capture.hooks import HookOwner, tensors_in
from pnne_nb.inspector.capture.preserve import is_compiled, preserved
from pnne_nb.inspector.statistics.gradients import GradientNorms, gradient_norms
from pnne_nb.telemetry.frames import Quantity


@final
@dataclass(frozen=True)
class Inspection:
    """One run of the model.

    Attributes:
        captures: Every captured tensor with its statistics, in the model's order.
        calls: Number of calls of each layer.
        norms: Norms of the parameters' gradients; empty without a loss.
        loss: The loss, or None if there was no loss function.
        output: The model's output with detached tensors. Containers become plain tuples, lists and dicts; values that are
            neither tensors nor constants become None.
    """

    captures: tuple[Capture, ...]
    calls: Mapping[str, int]
    norms: GradientNorms
    loss: float | None
    output: object

    def __repr__(self) -> str:
        layers = len({capture.layer for capture in self.captures})
        loss = "" if self.loss is None else f", loss={self.loss:.6g}"
        return f"Inspection({layers} layers, {len(self.captures)} tensors{loss})"


def run_once(
    model: nn.Module,
    watched: Mapping[str, tuple[Quantity, ...]],
    data: object,
    target: object = None,
    loss_fn: Callable[..., Tensor] | None = None,
) -> Inspection:
    """Run `model` forward, and backward if there is a loss, and capture what is watched.

    Args:
        model: The module to run.
        watched: Quantities by layer path.
        data: A tensor (or anything else) is the model's argument, a tuple its arguments, a mapping its
            keyword arguments.
        target: The second argument of `loss_fn`; left out if None.
        loss_fn: A function of output and target that gives a scalar, or None.

    Raises:
        InspectionError: If the model does not take `data`, `target` is given without `loss_fn` or is missing, or the
            loss is not a real scalar with a gradient.
        ArgumentError: If `loss_fn` cannot be called, or is the class of a loss.
    """
    if target is not None and loss_fn is None:
        raise InspectionError("A target needs a loss_fn: run_inspection(data, target, nn.CrossEntropyLoss()).")
    if loss_fn is not None:
        _check_loss_fn(loss_fn)
        _refuse_updates_in_backward(model)
    recorder = Recorder(model, watched)
    frozen = not any(parameter.requires_grad for parameter in model.parameters())
    with ExitStack() as stack:
        stack.enter_context(preserved(model, *([loss_fn] if isinstance(loss_fn, nn.Module) else [])))
        if is_compiled(model):
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        if loss_fn is not None:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
        hooks = stack.enter_context(HookOwner())
        args, kwargs = call_arguments(copied(following(data, model), needs_grad=frozen and loss_fn is not None), model)
        with placed(model, args, kwargs):
            recorder.attach(hooks)
            output: Any = model(*args, **kwargs)
        loss = None
        if loss_fn is not None:
            loss = _loss_of(loss_fn, output, copied(following(target, model)))
            recorder.backward_begins()
            torch.autograd.backward(loss)
        recorder.parameters()
        norms = gradient_norms(model)
    return Inspection(
        captures=tuple(recorder.finish()),
        calls=dict(recorder.calls),
        norms=norms,
        loss=None if loss is None else float(loss.detach()),
        output=_detached(output),
    )


def copied(value: object, *, needs_grad: bool = False) -> object:
    """Return `value` with copies of its tensors; those that required a gradient, or all if `needs_grad`, require one."""
    if isinstance(value, Tensor):
        copy = value.detach().clone()
        differentiable = copy.is_floating_point() or copy.is_complex()
        if differentiable and (value.requires_grad or needs_grad):
            # A second copy, because the model must not change a leaf in place.
            return copy.requires_grad_().clone()
        return copy
    if isinstance(value, Mapping):
        return {key: copied(item, needs_grad=needs_grad) for key, item in value.items()}
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        items = [copied(item, needs_grad=needs_grad) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(copied(item, needs_grad=needs_grad) for item in value)
    return value


def _detached(value: object) -> object:
    """Return `value` without its autograd graph, so that the inspection does not keep the graph alive."""
    if isinstance(value, Tensor):
        return value.detach()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _detached(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _detached(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [_detached(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value if isinstance(value, (bool, int, float, str)) else None


def _refuse_updates_in_backward(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise InspectionError(
                f"The parameter {name!r} has a post-accumulate-grad hook (an optimizer inside the backward pass?), which"
                " the inspection would run. Remove the hook for the inspection."
            )


def _check_loss_fn(loss_fn: object) -> None:
    if isinstance(loss_fn, type) and issubclass(loss_fn, nn.Module):
        raise ArgumentError(f"loss_fn is the class {loss_fn.__name__}, not a loss: make one, {loss_fn.__name__}().")
    if not callable(loss_fn):
        raise ArgumentError(
            f"loss_fn must be a function of output and target, not {shown(loss_fn)}."
            " Give the loss itself, such as nn.CrossEntropyLoss()."
        )


def _loss_of(loss_fn: Callable[..., Tensor], output: object, target: object) -> Tensor:
    """Return the loss of `output`; an error of `loss_fn` gets a note with its arguments."""
    given = (output,) if target is None else (output, target)
    name = type(loss_fn).__name__ if isinstance(loss_fn, nn.Module) else getattr(loss_fn, "__name__", "loss_fn")
    try:
        loss = loss_fn(*given)
    except Exception as error:
        misfit = why_not_callable(loss_fn.forward if isinstance(loss_fn, nn.Module) else loss_fn, given, {})
        if isinstance(error, TypeError) and misfit is not None:
            what, remedy = "the output and the target", "Give a function of both."
            if len(given) == 1:
                what, remedy = "the output alone", "Give the target too: run_inspection(data, target, …)."
            raise InspectionError(f"loss_fn ({name}) cannot be called with {what}: {misfit}. {remedy}") from error
        if isinstance(error, TypeError) and isinstance(target, np.ndarray):
            raise InspectionError(f"loss_fn ({name}) takes no NumPy array: give torch.from_numpy(target).") from error
        received = f"the output {_described(output)}"
        if len(given) > 1:
            received += f" and the target {_described(target)}"
        error.add_note(f"While inspecting, in loss_fn ({name}), which received {received}.")
        raise
    _check_loss(loss)
    return loss


def _described(value: object) -> str:
    found = [described(tensor) for _, tensor in tensors_in(value)]
    return ", ".join(found) if found else f"{shown(value)}, which has no tensor"


def _check_loss(loss: object) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shape = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise InspectionError(f"loss_fn must return a scalar tensor, not {shape}: reduce it, e.g. with .mean().")
    if loss.is_complex():
        raise InspectionError("The loss is complex, and has no gradient: return its real part, or its magnitude.")
    if not loss.requires_grad:
        raise InspectionError(
            "The loss requires no gradient: the model's output does not depend on anything that does"
            " (detached, or computed under no_grad). Leave loss_fn out to run forward only."
        )
