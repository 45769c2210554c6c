"""Runs a model once, captures what is watched, and restores the model; finds what was captured by name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, final, get_args

import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.errors import ArgumentError, InspectionError, LayerNotFoundError, expect, near, shown
from pnne_nb.inspector.capture.call_arguments import call_arguments, described, placed, why_not_callable
from pnne_nb.inspector.capture.capture import Capture, Recorder
from pnne_nb.inspector.capture.hooks import HookOwner, tensors_in
from pnne_nb.inspector.capture.preserve import is_compiled, preserved
from pnne_nb.inspector.statistics.measure import GradientNorms, gradient_norms
from pnne_nb.inspector.statistics.patterns import first_paths
from pnne_nb.inspector.statistics.units import UnitCounts
from pnne_nb.telemetry.frames import Frame, NormsFrame, Quantity, StatisticsFrame, StepFrame


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


def frames_of(inspection: Inspection) -> list[Frame]:
    """Return an inspection as the frames of an observed step; several outputs or calls become one frame each."""
    frames: list[Frame] = [
        StatisticsFrame(0, capture.layer, capture.quantity, _values(capture.statistics.to_row(), capture.units))
        for capture in inspection.captures
    ]
    if inspection.norms.by_layer:
        frames.append(NormsFrame(0, inspection.norms.by_layer, inspection.norms.total))
    if inspection.loss is not None:
        frames.append(StepFrame(0, 0, inspection.loss, math.nan, 0, 0.0))
    return frames


def _values(row: Mapping[str, object], units: UnitCounts | None) -> dict[str, float]:
    values = {name: float(value) for name, value in row.items() if isinstance(value, (int, float))}
    if units is not None:
        values["dead"] = units.dead / units.units
        values["saturation"] = units.saturation
    return values


QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)

DEFAULT: tuple[Quantity, ...] = ("activations", "gradients")


def as_quantities(what: object) -> tuple[Quantity, ...]:
    """Return one quantity or several as a tuple, in the order of `QUANTITIES`.

    Raises:
        ArgumentError: If one is unknown, or there is none.
    """
    expect(what, str | Sequence, "what", "a quantity or several", f"There are: {', '.join(map(repr, QUANTITIES))}.")
    asked = (what,) if isinstance(what, str) else tuple(what)  # type: ignore[arg-type]  # the words are checked below
    if not asked:
        raise ArgumentError(f"what names nothing to watch; there are {', '.join(map(repr, QUANTITIES))}.")
    for quantity in asked:
        if quantity not in QUANTITIES:
            # An abbreviation is too short to be near.
            begun = [known for known in QUANTITIES if known[:3] == str(quantity)[:3]]
            meant = near(quantity, QUANTITIES) or (f" Did you mean {begun[0]!r}?" if begun else "")
            raise ArgumentError(
                f"{shown(quantity)} cannot be watched.{meant} What can: {', '.join(map(repr, QUANTITIES))}."
            )
    return tuple(quantity for quantity in QUANTITIES if quantity in asked)


Watched = Mapping[str, tuple[Quantity, ...]]


def find(
    model: nn.Module, run: Inspection, watched: Watched, name: str, what: Quantity | None, label: str | None
) -> Capture:
    """Return one captured tensor.

    Args:
        model: The module that ran.
        run: Its run.
        watched: Quantities by layer; empty if every layer was watched by default.
        name: Path of the layer; of a module that appears twice, any of its paths.
        what: The quantity; None for the first captured one, in the order activations, inputs, gradients, parameters …
        label: The label among several outputs, calls or parameters; None for the first.

    Raises:
        LayerNotFoundError: If the model has no such layer.
        InspectionError: If nothing was captured there; the message says why.
    """
    paths = first_paths(model)
    if name not in paths:
        raise LayerNotFoundError(f"The model has no layer {name!r}.{near(name, paths)}")
    layer = paths[name]
    here = [capture for capture in run.captures if capture.layer == layer]
    chosen = [capture for capture in here if what is None or capture.quantity == what]
    if what is None and chosen:
        first = min(chosen, key=lambda capture: QUANTITIES.index(capture.quantity)).quantity
        chosen = [capture for capture in chosen if capture.quantity == first]
    if not chosen:
        raise InspectionError(_why_nothing(run, watched, layer, what))
    if label is None:
        return chosen[0]
    for capture in chosen:
        if capture.label == label:
            return capture
    labels = [capture.label for capture in chosen]
    raise InspectionError(
        f"Layer {layer!r} has no {chosen[0].quantity} labelled {label!r}.{near(label, labels)}"
        f" There are: {', '.join(map(repr, labels))}."
    )


def _why_nothing(run: Inspection, watched: Watched, layer: str, what: Quantity | None) -> str:
    quantities = watched.get(layer, () if watched else DEFAULT)
    place = f"layer {layer!r}" if layer else "the model itself"
    if not quantities or (what is not None and what not in quantities):
        asked = repr(what or "activations")
        return f"The {asked} of {place} are not watched: call watch({layer!r}, {asked}), then run_inspection."
    if what == "updates":
        return "Updates exist only while training: use attach(engine) or live()."
    if not run.calls.get(layer) and what not in ("parameters", "parameter_gradients"):
        return f"The last run did not call {place}: the model does not use it, or does not call it as a module."
    if what in ("gradients", "parameter_gradients"):
        if run.loss is None:
            return (
                f"There are no {what} of {place}: the last run had no loss. Call run_inspection(data, target, loss_fn)."
            )
        return f"There are no {what} of {place}: nothing there requires a gradient (frozen, or under no_grad)."
    return f"Nothing was captured at {place}: it has no {what or 'tensors'}."
