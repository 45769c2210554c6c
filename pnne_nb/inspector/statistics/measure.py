"""Computes statistics and gradient norms in float64, where the tensors are, with one transfer per collection."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.statistics.patterns import own_parameters
from pnne_nb.inspector.statistics.sampling import FloatArray, measurable, sample, sample_stride, to_host, values_of

PERCENTILES = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0)

EXACT_PERCENTILES = 1 << 22
"""Larger tensors have their percentiles taken from an evenly spread sample of at most this many elements."""

NEAR_ZERO = 1e-6
"""Elements of at most this magnitude count as near zero."""

_CHUNK = 1 << 22


@final
@dataclass(frozen=True)
class Statistics(Mapping[str, object]):
    """Statistics of one tensor; also a mapping from the names below to their values.

    The values from `mean` to `near_zeros` leave out non-finite elements. Complex tensors are measured by their magnitudes,
    bools as 0 and 1, sparse tensors by their stored values. Without finite elements, values are NaN and norms 0.

    Attributes:
        shape: Shape of the tensor.
        dtype: Name of its type in torch, e.g. ``"float32"``.
        count: Number of elements.
        mean: Arithmetic mean.
        std: Standard deviation with n - 1, as ``Tensor.std``; NaN for fewer than two elements.
        var: Variance, the square of `std`.
        min: Smallest element.
        max: Largest element.
        norm: Euclidean norm.
        norm_1: Sum of magnitudes.
        norm_inf: Largest magnitude.
        zeros: Fraction of elements that are exactly 0.
        near_zeros: Fraction of elements whose magnitude is at most 1e-6, zeros included.
        nan: Number of NaN.
        inf: Number of infinities of either sign.
        first_nonfinite: Index of the first NaN or infinity, or None.
        percentiles: Percentiles by percent (1, 5, 25, 50, 75, 95, 99), interpolated linearly.
        sampled: Number of elements from which the percentiles come; `count`, except for very large tensors.
    """

    shape: tuple[int, ...]
    dtype: str
    count: int
    mean: float
    std: float
    var: float
    min: float
    max: float
    norm: float
    norm_1: float
    norm_inf: float
    zeros: float
    near_zeros: float
    nan: int
    inf: int
    first_nonfinite: tuple[int, ...] | None
    percentiles: dict[float, float]
    sampled: int

    def __getitem__(self, name: str) -> object:
        if name not in _NAMES:
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)

    def to_row(self) -> dict[str, object]:
        """Return one flat row for a table: percentiles become columns ``"p1"`` … ``"p99"``."""
        row = asdict(self)
        del row["percentiles"]
        return row | {f"p{percent:g}": value for percent, value in self.percentiles.items()}


_NAMES = tuple(field.name for field in fields(Statistics))

_SCALARS = 12


@final
@dataclass(frozen=True)
class Launched:
    """A measurement on the tensor's device, before its transfer to the host."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    stored: tuple[int, ...]
    row: Tensor


def launch(tensor: Tensor) -> Launched:
    """Start measuring `tensor`, of any shape, dtype, layout and device, without waiting for the device.

    Raises:
        InspectionError: If the tensor is on the meta device or nested: it has no values to read.

    Shape:
        - tensor: `[*]`, of any shape.
    """
    values = _stored(tensor)
    return Launched(tuple(tensor.shape), tensor.dtype, tuple(values.shape), _measure(values))


def finish(launched: Sequence[Launched]) -> list[Statistics]:
    """Bring all results to the host, in one transfer per device."""
    rows = to_host([one.row for one in launched])
    return [_describe(one, row.tolist()) for one, row in zip(launched, rows, strict=True)]


def statistics(tensors: Sequence[Tensor]) -> list[Statistics]:
    """Measure every tensor; all results come to the host in one transfer per device.

    Raises:
        InspectionError: If a tensor is on the meta device or nested: it has no values to read.

    Shape:
        - tensors: each `[*]`, of any shape.
    """
    return finish([launch(tensor) for tensor in tensors])


def _stored(tensor: Tensor) -> Tensor:
    values = values_of(tensor) if tensor.layout == torch.sparse_coo else tensor.detach()
    if not measurable(values):
        raise InspectionError(
            f"A tensor of shape {list(tensor.shape) if not tensor.is_nested else 'nested'} on device"
            f" '{tensor.device}' with layout {tensor.layout} has no values that can be measured."
            " Move the model to a real device, or convert the tensor to a dense one."
        )
    return values_of(values)


def _measure(tensor: Tensor) -> Tensor:
    """Return all scalars of `tensor` as one float64 vector on its device, without waiting for the device."""
    # MPS has no float64.
    flat = (tensor.cpu() if tensor.device.type == "mps" else tensor).reshape(-1)
    count = flat.numel()
    if count == 0:
        return torch.full((_SCALARS + len(PERCENTILES),), math.nan, dtype=torch.float64, device=flat.device)
    sums = torch.zeros(8, dtype=torch.float64, device=flat.device)
    low = torch.full((), math.inf, dtype=torch.float64, device=flat.device)
    high = -low
    first = torch.full((), count, dtype=torch.int64, device=flat.device)
    for start in range(0, count, _CHUNK):
        x = flat[start : start + _CHUNK].double()
        finite = x.isfinite()
        kept = torch.where(finite, x, 0.0)
        magnitude = kept.abs()
        zero, near = finite & (x == 0), finite & (magnitude <= NEAR_ZERO)
        counted = finite, kept, magnitude, magnitude.square(), zero, near, x.isnan(), x.isinf()
        sums += torch.stack([values.sum() for values in counted])
        low = torch.minimum(low, torch.where(finite, x, math.inf).min())
        high = torch.maximum(high, torch.where(finite, x, -math.inf).max())
        odd = (~finite).to(torch.uint8).argmax()
        first = torch.minimum(first, torch.where(finite.all(), count, odd + start))
    number, mean = sums[0], sums[1] / sums[0]
    deviations = torch.zeros((), dtype=torch.float64, device=flat.device)
    for start in range(0, count, _CHUNK):
        x = flat[start : start + _CHUNK].double()
        deviations = deviations + torch.where(x.isfinite(), x - mean, 0.0).square().sum()
    variance = torch.where(number > 1, deviations / (number - 1), math.nan)
    scalars = torch.stack([variance, low, high, first.double()])
    return torch.cat([sums, scalars, _percentiles(flat)])


def _percentiles(flat: Tensor) -> Tensor:
    values = sample(flat, EXACT_PERCENTILES).double()
    finite = values.isfinite()
    last = (finite.sum() - 1).clamp(min=0)
    place = torch.tensor(PERCENTILES, dtype=torch.float64, device=flat.device) / 100 * last
    below = place.floor().long()
    above = torch.minimum(below + 1, last)
    known = torch.where(finite, values, math.inf)
    if flat.is_cpu:  # to select a few takes a fifth of the time of sorting all
        ordered = torch.from_numpy(np.partition(known.numpy(), [*below.tolist(), *above.tolist()]))
    else:
        ordered = known.sort().values
    between = torch.lerp(ordered[below], ordered[above], place - below)
    return torch.where(finite.any(), between, math.nan)


def _describe(launched: Launched, row: list[float]) -> Statistics:
    count = math.prod(launched.stored)
    finite, total, norm_1, squares, zeros, near, nan, inf, variance, low, high, first = row[:_SCALARS]
    empty = count == 0 or finite == 0
    nothing = math.nan
    return Statistics(
        shape=launched.shape,
        dtype=str(launched.dtype).removeprefix("torch."),
        count=count,
        mean=nothing if empty else total / finite,
        std=nothing if empty else math.sqrt(variance) if variance >= 0 else nothing,
        var=nothing if empty else variance,
        min=nothing if empty else low,
        max=nothing if empty else high,
        norm=0.0 if empty else math.sqrt(squares),
        norm_1=0.0 if empty else norm_1,
        norm_inf=0.0 if empty else max(abs(low), abs(high)),
        zeros=nothing if empty else zeros / finite,
        near_zeros=nothing if empty else near / finite,
        nan=0 if count == 0 else int(nan),
        inf=0 if count == 0 else int(inf),
        first_nonfinite=None if count == 0 or first >= count else _unravel(int(first), launched.stored),
        percentiles=dict(zip(PERCENTILES, [nothing] * len(PERCENTILES) if empty else row[_SCALARS:], strict=True)),
        sampled=math.ceil(count / sample_stride(count, EXACT_PERCENTILES)),
    )


def _unravel(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        flat, place = divmod(flat, size)
        index.append(place)
    return tuple(reversed(index))


@final
@dataclass(frozen=True)
class GradientNorms:
    """Euclidean norms of gradients.

    Attributes:
        by_layer: Norms over each module's own parameters, by path; layers without gradients are left out.
        total: Norm over all parameters; 0 if there is no gradient.
    """

    by_layer: dict[str, float]
    total: float


@final
@dataclass
class PendingNorms:
    """Norms on the device, before their transfer to the host.

    Attributes:
        layers: The layer of each norm.
        norms: 1-D tensors of norms, one per device.
    """

    layers: list[str] = field(default_factory=list)
    norms: list[Tensor] = field(default_factory=list)

    def finish(self, arrays: Sequence[FloatArray]) -> GradientNorms:
        """Return the norms by layer and in total.

        Args:
            arrays: `norms`, moved to the host.
        """
        squares: dict[str, float] = {}
        flat = np.concatenate(arrays).astype(np.float64) if arrays else np.empty(0)
        for layer, norm in zip(self.layers, flat.tolist(), strict=True):
            squares[layer] = squares.get(layer, 0.0) + norm * norm
        by_layer = {layer: square**0.5 for layer, square in squares.items()}
        return GradientNorms(by_layer, sum(squares.values()) ** 0.5)


def launch_norms(parameters: Iterable[tuple[str, str, nn.Parameter]]) -> PendingNorms:
    """Start the norms of all gradients without waiting for them: one fused call per device.

    Args:
        parameters: (layer, name, parameter) as `own_parameters` yields them.
    """
    by_device: dict[torch.device, tuple[list[str], list[Tensor]]] = {}
    for layer, _, parameter in parameters:
        gradient = parameter.grad
        if gradient is not None and gradient.numel():
            layers, gradients = by_device.setdefault(gradient.device, ([], []))
            layers.append(layer)
            gradients.append(values_of(gradient))
    pending = PendingNorms()
    for layers, gradients in by_device.values():
        pending.layers += layers
        pending.norms.append(torch.stack(_norms(gradients)))
    return pending


def gradient_norms(model: nn.Module) -> GradientNorms:
    """Return the norm of the gradient of each layer's own parameters, and of all together.

    Half-precision gradients are summed in float32. A NaN or infinite gradient gives a NaN or infinite norm.
    """
    pending = launch_norms(own_parameters(model))
    return pending.finish(to_host(pending.norms))


def _norms(gradients: list[Tensor]) -> list[Tensor]:
    # Half precision overflows when squared (65504), so its norms accumulate in float32.
    halves = any(gradient.dtype in (torch.float16, torch.bfloat16) for gradient in gradients)
    norms = torch._foreach_norm(gradients, 2, dtype=torch.float32) if halves else torch._foreach_norm(gradients, 2)
    # Mixed float32 and float64 parameters: stack needs one dtype.
    wide = {norm.dtype for norm in norms}
    return [norm.double() for norm in norms] if len(wide) > 1 else list(norms)
