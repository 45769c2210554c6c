"""Captures one run of a model: copies every watched tensor and computes its statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, final

from torch import Tensor, nn

from pnne_nb.inspector.capture.hooks import HookOwner, in_backward, tensors_in
from pnne_nb.inspector.statistics.histogram import Histogram
from pnne_nb.inspector.statistics.measure import Launched, Statistics, finish, launch
from pnne_nb.inspector.statistics.sampling import sample
from pnne_nb.inspector.statistics.units import Launched as LaunchedUnits
from pnne_nb.inspector.statistics.units import Layouts, UnitCounts, bounds_of, count_units, launch_units
from pnne_nb.telemetry.frames import Quantity

CALLS = 64
"""Most calls of one layer that are captured in one run; later calls are only counted."""

KEPT = 1 << 26
"""Most elements that one run keeps in full, over all layers (256 MiB of float32)."""

SAMPLED = 1 << 16
"""Size of the evenly spread sample that is kept of each tensor beyond that."""


@final
@dataclass(frozen=True)
class Capture:
    """One tensor of one run.

    Attributes:
        layer: Path of the layer.
        quantity: The quantity, such as ``"activations"``.
        label: Tells tensors of one quantity apart: ``"call2"`` for calls, ``"0"`` or ``"logits"`` for outputs,
            ``"call2.0"`` for both, ``"weight"`` for parameters; ``""`` if there is only one.
        tensor: A detached copy; 1-D if `sampled`.
        sampled: Whether `tensor` is an evenly spread sample, because the run exceeded the limit of kept elements.
        statistics: Statistics of all elements.
        units: Numbers of dead and saturated units, for activations with a channel dimension; else None.
    """

    layer: str
    quantity: Quantity
    label: str
    tensor: Tensor
    sampled: bool
    statistics: Statistics
    units: UnitCounts | None = None


class LayerView(NamedTuple):
    """What a plot of one captured tensor shows: the tensor, the name of the layer's class, and a histogram."""

    capture: Capture
    kind: str
    histogram: Histogram


@dataclass
class _Record:
    layer: str
    quantity: Quantity
    call: int
    label: str
    tensor: Tensor
    sampled: bool
    launched: Launched
    units: LaunchedUnits | None


@final
class Recorder:
    """Records one run: call `attach` before it, `parameters` after the backward pass, and `finish` at the end."""

    def __init__(self, model: nn.Module, watched: Mapping[str, tuple[Quantity, ...]]) -> None:
        self.calls: Counter[str] = Counter()
        self._model = model
        self._modules = dict(model.named_modules())
        self._watched = watched
        self._records: list[_Record] = []
        self._left = KEPT
        self._layouts = Layouts()
        self._inputs: dict[str, list[Tensor]] = {}
        self._backward = False

    def attach(self, hooks: HookOwner) -> None:
        """Attach hooks to every layer: all count calls, those of watched layers also record."""
        self._hooks = hooks
        hooks.on_calls(self._model, self._enter, self._leave)

    def backward_begins(self) -> None:
        """Record gradients from now on, but not those that the model or its loss computed in the forward pass."""
        self._backward = True

    def parameters(self) -> None:
        """Record parameters and their gradients."""
        for name, quantities in self._watched.items():
            for label, parameter in self._modules[name].named_parameters(recurse=False):
                if "parameters" in quantities:
                    self._take(name, "parameters", 0, label, parameter)
                if "parameter_gradients" in quantities and parameter.grad is not None:
                    self._take(name, "parameter_gradients", 0, label, parameter.grad)

    def finish(self) -> list[Capture]:
        """Bring all measurements to the host in one transfer, in the order of layers, quantities and calls."""
        order = {name: index for index, name in enumerate(self._watched)}
        records = sorted(self._records, key=lambda one: (order[one.layer], one.quantity, one.call))
        measured = finish([record.launched for record in records])
        units = count_units([record.units for record in records])
        captures = []
        for record, found, counted in zip(records, measured, units, strict=True):
            label = record.label
            if record.quantity not in ("parameters", "parameter_gradients") and self.calls[record.layer] > 1:
                label = f"call{record.call}{f'.{label}' if label else ''}"
            captures.append(
                Capture(record.layer, record.quantity, label, record.tensor, record.sampled, found, counted)
            )
        return captures

    def _enter(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if in_backward():
            return
        inputs = [*tensors_in(args), *tensors_in(kwargs)]
        self._inputs[name] = [tensor for _, tensor in inputs]
        if "inputs" in self._watched.get(name, ()):
            only = len(inputs) == 1
            for label, tensor in inputs:
                self._take(name, "inputs", self.calls[name], "" if only else label, tensor)

    def _leave(self, name: str, output: object) -> None:
        quantities = self._watched.get(name, ())
        again = in_backward()
        call = self.calls[name]
        if not again:
            self.calls[name] += 1
        outputs = list(tensors_in(output))
        only = len(outputs) == 1
        received = self._inputs.pop(name, [])
        for place, tensor in outputs:
            self._layouts.follow(self._modules[name], received, tensor)
            label = "" if only else place
            if "activations" in quantities and not again:
                self._take(name, "activations", call, label, tensor)
            if "gradients" in quantities:
                # A reentrant checkpoint has gradients only in its recomputation, whose calls are not counted again.
                # Gradients arrive in reverse order of the calls, which gives the call's number.
                self._hooks.on_gradient(tensor, partial(self._take_gradient, name, max(call - again, 0), label))

    def _take_gradient(self, name: str, call: int, label: str, gradient: Tensor) -> None:
        if self._backward:
            self._take(name, "gradients", call, label, gradient)

    def _take(self, layer: str, quantity: Quantity, call: int, label: str, tensor: Tensor) -> None:
        if call >= CALLS:
            return
        launched = launch(tensor)
        full = tensor.numel() <= self._left
        kept = tensor.detach().clone() if full else sample(tensor, SAMPLED)
        self._left -= kept.numel()
        units = None
        if quantity == "activations":
            units = launch_units(
                tensor, bounds_of(self._modules[layer]), channels_first=self._layouts.channels_first(tensor)
            )
        self._records.append(_Record(layer, quantity, call, label, kept, not full, launched, units))
