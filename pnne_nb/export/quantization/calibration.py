"""Calibration on real batches: the range of each layer's inputs, and the mean error of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor, nn

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
