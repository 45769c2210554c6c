"""Measures the error of lower precision at each node and at the model's outputs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.shapes.cost import MultiplyAdds
from pnne_nb.export.quantization.calibration import not_finite, observed
from pnne_nb.export.quantization.candidates import Candidate

Call = Callable[[nn.Module], object]
"""Calls the model that it is given on one batch, and returns its result."""


@dataclass(frozen=True, slots=True)
class PrecisionLoss:
    """The error of lower precision at one node.

    Attributes:
        sqnr: Power of the node's outputs divided by that of their error, in decibels, if the inputs are exact.
        worst: The largest error of one element, in the unit of the outputs.
        index: Where that is; the first entry is the sample.
        damage: Power of the error at the model's outputs divided by theirs, if this node alone is converted.
        multiply_adds: Of the node, for all batches that were measured.
    """

    sqnr: float
    worst: float
    index: tuple[int, ...]
    damage: float
    multiply_adds: int


@final
class _Difference:
    """Sums of the differences between a node's float and converted module."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.signal = self.noise = self.worst = 0.0
        self.index: tuple[int, ...] = ()
        self.multiply_adds = 0

    def observe(self, converted: nn.Module, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if not output.isfinite().all():
            raise not_finite(self._path, "output")
        with MultiplyAdds(pieces=math.inf, operations=math.inf) as counted:
            module.forward(*args)
        self.multiply_adds += int(counted.count)
        gaps = (converted(*args) - output).abs()
        self.signal += float(output.double().square().sum())
        self.noise += float(gaps.double().square().sum())
        if gaps.numel() and (largest := float(gaps.max())) >= self.worst:
            place = torch.unravel_index(gaps.argmax(), gaps.shape)
            self.worst, self.index = largest, tuple(int(each) for each in place)


def measure_nodes(
    model: nn.Module, converted: Mapping[str, nn.Module], candidates: Sequence[Candidate], calls: Sequence[Call]
) -> dict[str, PrecisionLoss]:
    """Return the error of each candidate, by path, on real batches.

    Args:
        model: The float model in eval mode.
        converted: The converted layers by path of the modules whose place they take.
        candidates: The nodes to measure.
        calls: One for each batch.

    Raises:
        ExportError: If an output is not finite, with the node.
    """
    seen = {each.path: _Difference(each.path) for each in candidates}
    observers = [
        (each.module, functools.partial(seen[each.path].observe, converted[each.module])) for each in candidates
    ]
    with observed(model, observers):
        exact = [_floats(call(model)) for call in calls]
    damages = {}
    with torch.inference_mode():
        for each in candidates:
            with replaced(model, [each], converted):
                damages[each.path] = _relative_noise(exact, [_floats(call(model)) for call in calls])
    return {
        path: PrecisionLoss(
            _decibels(each.signal, each.noise), each.worst, each.index, damages[path], each.multiply_adds
        )
        for path, each in seen.items()
    }


@contextmanager
def replaced(model: nn.Module, candidates: Sequence[Candidate], converted: Mapping[str, nn.Module]) -> Iterator[None]:
    """Use converted layers in a model during the ``with`` block."""
    before = {each.module: model.get_submodule(each.module) for each in candidates}
    try:
        for held in before:
            model.set_submodule(held, converted[held])
        yield
    finally:
        for held, module in before.items():
            model.set_submodule(held, module)


def total_multiply_adds(model: nn.Module, calls: Sequence[Call]) -> int:
    """Return the multiply-adds of a model for all batches."""
    with torch.inference_mode(), MultiplyAdds(pieces=math.inf, operations=math.inf) as counted:
        for call in calls:
            call(model)
    return int(counted.count)


def _floats(result: object) -> list[Tensor]:
    leaves = pytree.tree_leaves(result)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_floating_point()]


def _relative_noise(exact: Sequence[Sequence[Tensor]], found: Sequence[Sequence[Tensor]]) -> float:
    pairs = [pair for one, other in zip(exact, found, strict=True) for pair in zip(one, other, strict=True)]
    noise = sum(float((other.double() - one.double()).square().sum()) for one, other in pairs)
    signal = sum(float(one.double().square().sum()) for one, _ in pairs)
    return noise / signal if signal else math.inf if noise else 0.0


def _decibels(signal: float, noise: float) -> float:
    return 10 * math.log10(signal / noise) if signal and noise else math.inf if not noise else -math.inf
