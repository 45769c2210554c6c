"""Checks names of quantities, and finds captured tensors by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

from torch import nn

from pnne_nb.errors import ArgumentError, InspectionError, LayerNotFoundError, expect, near, shown
from pnne_nb.inspector.capture.capture import Capture
from pnne_nb.inspector.capture.run import Inspection
from pnne_nb.inspector.statistics.patterns import first_paths
from pnne_nb.telemetry.frames import Quantity

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
