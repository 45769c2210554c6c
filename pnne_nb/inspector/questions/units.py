"""The units of a layer: which are dead, saturated or alike, what drives them, and what each counts for one answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pnne_nb.errors import InspectionError, shown
from pnne_nb.inspector.capture.preserve import uncompiled
from pnne_nb.inspector.questions.changes import channel_axis, zero
from pnne_nb.inspector.questions.example import Target, opened, scores_of
from pnne_nb.inspector.questions.leaves import Leaves
from pnne_nb.inspector.questions.sites import edited, place_of
from pnne_nb.inspector.statistics.units import NEAR, STUCK, bounds_of

STRONGEST: Final = 9
"""Examples that are named for each unit."""

BINS: Final = 24
"""Bars of a unit's histogram."""

_ALIKE: Final = 0.999
"""Correlation from which two units are alike."""

_COMPARED: Final = 4096
"""Most values of each unit that are correlated, and most units."""


@final
@dataclass(frozen=True, eq=False)
class UnitReport:
    """The units of a layer (channels of its output), `[c]` each.

    Attributes:
        layer: Path of the layer.
        axis: The dimension of its output that counts units.
        dims: The number of dimensions of its output.
        level: For the example, the output with the largest magnitude.
        share: What the unit counts for the answer: its output times the gradient, summed over positions. None without a
            target, and where the answer has no gradient.
        zeros: Share of zeros over all examples and positions.
        states: ``"dead"`` (0 everywhere), ``"constant"``, ``"saturated"``, ``"like 3"``, or empty.
        strongest: The examples with the largest output, `[c, 9]` or fewer, the first the largest.
        weakest: Those with the smallest, likewise.
        counts: Histogram of its outputs over all examples and positions, `[c, 24]`.
        ends: Where the histograms begin and end.
    """

    layer: str
    axis: int
    dims: int
    level: NDArray[np.float64]
    share: NDArray[np.float64] | None
    zeros: NDArray[np.float64]
    states: tuple[str, ...]
    strongest: NDArray[np.int64]
    weakest: NDArray[np.int64]
    counts: NDArray[np.int64]
    ends: tuple[float, float]

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        return f"UnitReport({self.layer!r}: {len(self)} units, {sum(map(bool, self.states))} with a remark)"

    def order(self) -> NDArray[np.int64]:
        """Return the units, those first that count most for the answer, or else those with the largest output."""
        by = np.abs(self.level) if self.share is None else self.share
        return np.argsort(-by, kind="stable")


def look_at_units(
    net: nn.Module, data: object, layer: str, one: object, target: Target = None, *, dim: int | None = None
) -> UnitReport:
    """Look at the units of a layer; the model is left as it was.

    Args:
        net: Any module.
        data: The examples over which units are judged, as the model takes them.
        layer: Path of the layer, or of a function of a compiled graph.
        one: The example alone.
        target: The number of its output that units are weighed for; None for none.
        dim: The dimension of the output that counts units; None for the usual one.

    Raises:
        LayerNotFoundError: If there is no such layer.
        InspectionError: If it is not called, or its output has no units.
    """
    values = layer_output(net, data, layer).double()
    module = place_of(uncompiled(net), layer)
    axis = unit_axis(layer, module, values, dim)
    each = values.movedim(axis, 1).flatten(2) if values.dim() > 2 else values.unsqueeze(2)
    flat = each.movedim(1, 0).flatten(1)
    own, gradients = _called(net, one, layer, target)
    sums: Tensor | None = None
    for call, gradient in zip(own, gradients, strict=True):
        if gradient is not None and call.shape == gradient.shape and call.dim() == values.dim():
            products = (call * gradient).double().movedim(axis, 0).flatten(1).sum(1)
            sums = products if sums is None else sums + products
    level = own[0].double().movedim(axis, 0).flatten(1)
    peaks = level.gather(1, level.abs().argmax(1, keepdim=True)).squeeze(1)
    few, highest = min(STRONGEST, len(each)), each.amax(2)
    strongest, weakest = (highest.topk(few, dim=0, largest=most).indices.T.cpu().numpy() for most in (True, False))
    return UnitReport(
        layer, axis, values.dim(), peaks.cpu().numpy(), None if sums is None else sums.cpu().numpy(),
        (flat == 0).double().mean(1).cpu().numpy(), _states(flat, module), strongest, weakest, *_histograms(flat),
    )  # fmt: skip


@final
@dataclass(frozen=True)
class Peak:
    """Where a unit is largest in an example, and what it reads there.

    Attributes:
        place: The position in the layer's output, without example and unit.
        box: First and last index of the input's values that count for it, by dimension without the example; ``()`` for none.
    """

    place: tuple[int, ...]
    box: tuple[tuple[int, int], ...]


def unit_axis(layer: str, module: nn.Module | None, output: Tensor, dim: int | None = None) -> int:
    """Return the dimension of a layer's output that counts its units: `dim`, or the usual one.

    Raises:
        InspectionError: If there are no units, or not in this dimension.
    """
    if output.dim() < 2 or output.numel() == 0:
        raise InspectionError(
            f"The layer {layer!r} returns the shape {list(output.shape)}, in which there are no units."
        )
    if dim is not None and (type(dim) is not int or not 0 < dim < output.dim()):
        raise InspectionError(
            f"The layer {layer!r} returns the shape {list(output.shape)}: its units are counted in one of the dimensions 1 to"
            f" {output.dim() - 1}, not {shown(dim)}."
        )
    return channel_axis(type(module), output.dim()) if dim is None else dim


def peaks(net: nn.Module, data: object, layer: str, unit: int, *, dim: int | None = None) -> list[Peak]:
    """Return for each example where a unit of a layer is largest, and what it reads there; see `look_at_units` for errors."""
    places: list[tuple[int, ...]] = []
    module = place_of(uncompiled(net), layer)
    part = zero(channels=[unit]).part

    def largest(output: Tensor) -> Tensor:
        axis = unit_axis(layer, module, output, dim)
        replace(part, dim=axis).mask(output, type(module), layer)  # raises where there is no such unit
        one = output.movedim(axis, 1)[:, unit]
        best = one.flatten(1).argmax(1) if one.dim() > 1 else torch.zeros(len(one), dtype=torch.int64)
        shape = one.shape[1:] or (1,)
        places[:] = [tuple(map(int, np.unravel_index(int(at), shape)))[: one.dim() - 1] for at in best]
        return one.reshape(len(one), -1).gather(1, best[:, None].to(one.device)).squeeze(1)

    with opened(net, data, grad=True) as example:
        leaves = Leaves(example, largest, layer)
        with leaves:
            counts = next(iter(leaves.reached([leaf.start for leaf in leaves.all]).values()))
    found = []
    for place, each in zip(places, counts, strict=True):
        inside = each.nonzero()
        ends = zip(inside.amin(0).tolist(), inside.amax(0).tolist(), strict=True) if len(inside) else ()
        found.append(Peak(place, tuple(ends)))
    return found


def _histograms(flat: Tensor) -> tuple[NDArray[np.int64], tuple[float, float]]:
    """Return the histogram of each unit of `[c, values]`, all over the same range, and the range."""
    finite = flat.nan_to_num(0, 0, 0)
    low, high = float(finite.min()), float(finite.max())
    bins = ((finite - low) * (BINS / ((high - low) or 1.0))).long().clamp(max=BINS - 1)
    bins += BINS * torch.arange(len(flat), device=flat.device)[:, None]
    counts = bins.flatten().bincount(minlength=BINS * len(flat)).view(-1, BINS)
    return counts.cpu().numpy(), (low, high)


def layer_output(net: nn.Module, data: object, layer: str) -> Tensor:
    """Return what a layer returns in its first call; see `look_at_units` for errors."""
    return _called(net, data, layer, None)[0][0]


def _called(net: nn.Module, data: object, layer: str, target: Target) -> tuple[list[Tensor], list[Tensor | None]]:
    """Return what the layer returned in each call, and the gradient of the number `target` by it."""
    with opened(net, data, grad=target is not None) as example:
        place_of(example.model, layer)
        found: list[Tensor] = []

        def kept(tensor: Tensor) -> Tensor:
            leaf = tensor.detach().clone()
            found.append(leaf)
            if target is None or not leaf.is_floating_point():
                return tensor
            # A second copy, because what follows may work in place.
            return leaf.requires_grad_().clone()

        with edited(example.model, {layer: kept}):
            output = example.run()
        if not found:
            raise InspectionError(f"The layer {layer!r} is not called for this example.")
        answer = None if target is None else scores_of(output, target).sum()
        if answer is None or not answer.requires_grad:
            return [leaf.detach() for leaf in found], [None for _ in found]
        gradients = torch.autograd.grad(answer, found, allow_unused=True)
        return [leaf.detach() for leaf in found], list(gradients)


def _states(flat: Tensor, module: nn.Module | None) -> tuple[str, ...]:
    """Return the remark on each unit of `[c, values]`."""
    low, high, bounds = flat.amin(1), flat.amax(1), bounds_of(module)
    near_bound = torch.zeros_like(low)
    if bounds is not None:
        margin = NEAR * (bounds[1] - bounds[0])
        near_bound = ((flat <= bounds[0] + margin) | (flat >= bounds[1] - margin)).double().mean(1)
    several = flat.shape[1] > 1
    states = []
    alike = _alike(flat) if 1 < len(flat) <= _COMPARED and flat.shape[1] > 2 else {}
    for unit in range(len(flat)):
        constant = several and bool(low[unit] == high[unit])
        if constant:
            states.append("dead" if low[unit] == 0 else "constant")
        elif several and near_bound[unit] >= STUCK:
            states.append("saturated")
        else:
            states.append(f"like {alike[unit]}" if unit in alike else "")
    return tuple(states)


def _alike(flat: Tensor) -> dict[int, int]:
    """Return the first unit that each unit goes with, where there is one."""
    some = flat[:, :: max(1, flat.shape[1] // _COMPARED)]
    centred = some - some.mean(1, keepdim=True)
    unit = centred / centred.norm(dim=1, keepdim=True).clamp_min(1e-300)
    pairs = torch.nonzero(torch.triu(unit @ unit.T > _ALIKE, diagonal=1)).tolist()
    found: dict[int, int] = {}
    for first, second in pairs:
        found.setdefault(second, first)
    return found
