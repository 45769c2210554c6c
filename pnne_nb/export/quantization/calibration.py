"""Measures layers on real batches: the range of their inputs, the mean error of their outputs, and what lower precision costs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.shapes.cost import MultiplyAdds
from pnne_nb.errors import Diagnostic, ExportError
from pnne_nb.export.quantization.candidates import Candidate
from pnne_nb.export.quantization.scheme import ConvertedLayer, InputRange

SAMPLES = 4096
"""Elements of each batch at most that the error of a range is estimated with."""

SHARES = (1.0, 0.98, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
"""Parts of the observed range that are tried: without its rare ends, all other values have smaller steps."""


def calibrate(
    model: nn.Module, candidates: Sequence[Candidate], calls: Iterable[Callable[[nn.Module], object]]
) -> dict[str, InputRange]:
    """Return the range of the inputs of each candidate, by path; those that did not run are missing.

    Args:
        model: The float model in eval mode.
        candidates: Whose inputs to observe.
        calls: One for each batch: calls the model that it is given.

    Raises:
        ExportError: If an input is not finite, with the node.
    """
    seen = {candidate.path: _Observed(candidate.path) for candidate in candidates}
    with observed(model, [(candidate.module, seen[candidate.path].observe) for candidate in candidates]):
        for call in calls:
            call(model)
    return {path: observed.chosen() for path, observed in seen.items() if observed.samples}


def correct_biases(
    model: nn.Module,
    candidates: Sequence[Candidate],
    layers: Mapping[str, ConvertedLayer],
    calls: Iterable[Callable[[nn.Module], object]],
) -> dict[str, ConvertedLayer]:
    """Return converted layers whose bias corrects the mean error of each output channel, by path of the module.

    Rounded weights shift the mean of a channel, and the shifts of many layers add up (Nagel et al., 2019, Data-Free
    Quantization Through Weight Equalization and Bias Correction, section 4.2). A layer without a bias stays as it is.

    Args:
        model: The float model in eval mode.
        candidates: Whose outputs to compare.
        layers: What takes the place of their modules, by path of the module.
        calls: As in `calibrate`.
    """
    converted = {each.module: layers[each.module] for each in candidates}
    seen = {held: _Shift(layer.module()) for held, layer in converted.items() if "bias" in layer.tensors}
    with observed(model, [(held, shift.observe) for held, shift in seen.items()]):
        for call in calls:
            call(model)
    return {held: replace(layer, tensors=_shifted(layer, seen.get(held))) for held, layer in layers.items()}


@contextmanager
def observed(model: nn.Module, observers: Iterable[tuple[str, Callable[..., None]]]) -> Iterator[None]:
    """Call observers with module, arguments and output for each call of the modules at their paths in this block."""
    with ExitStack() as stack, torch.inference_mode():
        for path, observe in observers:
            stack.callback(model.get_submodule(path).register_forward_hook(observe).remove)
        yield


def _shifted(layer: ConvertedLayer, shift: _Shift | None) -> Mapping[str, Tensor]:
    if shift is None or shift.total is None:
        return layer.tensors
    return {**layer.tensors, "bias": layer.tensors["bias"] + (shift.total / shift.count).float()}


@final
class _Shift:
    """The difference of a layer's outputs from those of the converted layer, summed by channel."""

    def __init__(self, converted: nn.Module) -> None:
        self._converted = converted
        self.total: Tensor | None = None
        self.count = 0

    def observe(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        gaps = (output - self._converted(*args)).double()
        behind = 0 if isinstance(module, nn.Linear) else module.get_parameter("weight").dim() - 2
        gaps = gaps.movedim(-1 - behind, 0).flatten(1)
        if gaps.numel():
            total = gaps.sum(1)
            self.total = total if self.total is None else self.total + total
            self.count += gaps.shape[1]


def not_finite(path: str, what: str) -> ExportError:
    """Return an error about values that are not finite, at their node."""
    message = f"its {what} has values that are not finite, so nothing can be measured there"
    hint = "Find where they come from: with pn.detect_anomaly(model)."
    return ExportError(f"{path}: {message}. {hint}", [Diagnostic("not-finite", message, path, hint=hint)])


@final
class _Observed:
    """The inputs of one layer."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._low = self._high = 0.0
        self._chance = torch.Generator().manual_seed(0)
        self.samples: list[Tensor] = []

    def observe(self, _module: nn.Module, args: tuple[Any, ...], _output: Tensor) -> None:
        values = args[0].detach().float().flatten()
        if values.numel() == 0:
            return
        low, high = (float(end) for end in values.aminmax())
        if not (low > -float("inf") and high < float("inf")):
            raise not_finite(self._path, "input")
        self._low, self._high = min(self._low, low), max(self._high, high)
        if values.numel() > SAMPLES:
            # At equal distances, they could all be of one pixel, such as a corner.
            values = values[torch.randint(values.numel(), (SAMPLES,), generator=self._chance)]
        self.samples.append(values.clone())

    def chosen(self) -> InputRange:
        """Return the range with the least squared error on the samples."""
        values = torch.cat(self.samples)
        return min((_range(self._low * share, self._high * share) for share in SHARES), key=lambda r: _error(values, r))


def _range(low: float, high: float) -> InputRange:
    scale = max((high - low) / 255, 1e-12)
    return InputRange(scale, min(255, max(0, round(-low / scale))))


def _error(values: Tensor, range: InputRange) -> float:
    steps = (values / range.scale).round().add(range.zero_point).clamp(0, 255)
    return float((steps.sub(range.zero_point).mul(range.scale) - values).square().mean())


def require_calibration(ranges: Mapping[str, InputRange], candidates: Sequence[Candidate]) -> dict[str, str]:
    """Return why candidates without a range stay in float, by path."""
    return {
        each.path: "it did not run on the calibration data, so the range of its input is unknown"
        for each in candidates
        if each.path not in ranges
    }


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
