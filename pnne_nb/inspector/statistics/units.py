"""Counts the dead and the saturated units of an activation, over all examples and positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final
from weakref import ReferenceType, ref

import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.inspector.statistics.sampling import FloatArray, to_host, values_of

Bounds = tuple[float, float]

NEAR = 0.03
"""Distance from a bound within which an element is saturated, as a share of the range between the bounds."""

STUCK = 0.95
"""Share of a unit's elements that must be near a bound for the unit to be saturated."""

_SEQUENCE = 3

_ONE_DIMENSIONAL = (nn.Conv1d, nn.ConvTranspose1d, nn.BatchNorm1d, nn.InstanceNorm1d, nn.MaxPool1d, nn.AvgPool1d)
_BY_ELEMENT = frozenset(("torch.nn.modules.activation", "torch.nn.modules.dropout"))

# At most [n, c, d, h, w].
_DIMENSIONS = range(2, 6)


@final
@dataclass(frozen=True)
class UnitCounts:
    """Numbers of dead, constant and saturated channels, over examples and positions.

    Attributes:
        units: Number of channels.
        dead: Number of channels that are 0 everywhere.
        constant: Number of channels with the same value everywhere, dead ones included.
        saturated: Number of channels of a bounded activation with at least 95 % of the elements near a bound.
        saturation: Share of all elements that are near a bound; 0 for an unbounded activation.
    """

    units: int
    dead: int
    constant: int
    saturated: int
    saturation: float


Launched = tuple[int, Tensor]
"""Number of channels, and the counts on the device."""


def bounds_of(module: nn.Module | None) -> Bounds | None:
    """Return the bounds of a saturating activation's outputs, or None for any other module."""
    match module:
        case nn.Tanh() | nn.Softsign():
            return -1.0, 1.0
        case nn.Sigmoid() | nn.Hardsigmoid():
            return 0.0, 1.0
        case nn.Hardtanh() if not isinstance(module, nn.ReLU6):
            return float(module.min_val), float(module.max_val)
        case _:
            return None


@final
class Layouts:
    """Records which three-dimensional tensors of one run are `[n, c, l]`; by their shape, they could be `[n, t, c]`.

    Outputs of one-dimensional layers are `[n, c, l]`, and so are activations and dropout of these. Other operations, such
    as an addition, lose the record.
    """

    def __init__(self) -> None:
        self._known: dict[int, ReferenceType[Tensor]] = {}

    def follow(self, module: nn.Module, inputs: Iterable[Tensor], output: Tensor) -> None:
        """Record that `module` made `output`, `[N, C, L]` or any other shape, from `inputs`."""
        if isinstance(module, _ONE_DIMENSIONAL) or (
            type(module).__module__ in _BY_ELEMENT and any(self.channels_first(tensor) for tensor in inputs)
        ):
            self._known[id(output)] = ref(output)

    def channels_first(self, tensor: Tensor) -> bool:
        """Return whether `tensor` is known to be `[n, c, l]`."""
        known = self._known.get(id(tensor))
        return known is not None and known() is tensor


def saturation(sample: FloatArray, bounds: Bounds) -> float:
    """Share of the elements of a sample that are near one of the bounds; NaN for an empty one."""
    low, high = bounds
    margin = NEAR * (high - low)
    return float(np.mean((sample <= low + margin) | (sample >= high - margin))) if sample.size else float("nan")


def launch_units(activation: Tensor, bounds: Bounds | None, *, channels_first: bool = False) -> Launched | None:
    """Start counting, or None where there are no channels to tell apart or fewer than two elements of each.

    Args:
        activation: `[n, c]`, `[n, t, c]` or, as images, `[n, c, …]`.
        bounds: Of the activation, if it has any.
        channels_first: Whether three dimensions are `[n, c, l]`, as `Layouts` tells.
    """
    if activation.is_nested or activation.layout != torch.strided or activation.dim() not in _DIMENSIONS:
        return None
    if activation.numel() == 0 or not (activation.is_floating_point() or activation.is_complex()):
        return None
    values = values_of(activation)
    channels = values.movedim(-1 if activation.dim() == _SEQUENCE and not channels_first else 1, 0).flatten(1)
    if channels.shape[1] < 2:  # one example says nothing about a unit
        return None
    low, high = channels.amin(1), channels.amax(1)
    near = torch.zeros_like(low, dtype=torch.float32)
    if bounds is not None:
        margin = NEAR * (bounds[1] - bounds[0])
        near = ((channels <= bounds[0] + margin) | (channels >= bounds[1] - margin)).float().mean(1)
    counts = ((low == 0) & (high == 0)).sum(), (low == high).sum(), (near >= STUCK).sum(), near.mean()
    return channels.shape[0], torch.stack([count.float() for count in counts])


def count_units(launched: Sequence[Launched | None]) -> list[UnitCounts | None]:
    """Bring the counts to the host in one transfer per device."""
    arrays = iter(to_host([one[1] for one in launched if one is not None]))

    def counted(units: int) -> UnitCounts:
        dead, constant, saturated, share = next(arrays).tolist()
        return UnitCounts(units, int(dead), int(constant), int(saturated), share)

    return [None if one is None else counted(one[0]) for one in launched]
