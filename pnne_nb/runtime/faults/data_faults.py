"""Looks at data in memory before the first step, and tells what makes a training fail or its validation mislead."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from pnne_nb.runtime.data.sources import BatchSource, TensorSource
from pnne_nb.telemetry.frames import AnomalyFrame, Evidence

SAMPLE = 10_000
"""Examples that statistics are taken of, evenly spread."""
FEW = 20
"""With fewer examples nothing is said."""
LARGE = 100.0
"""Mean or standard deviation of inputs that is called large: the usual initialisations expect about 1 (He et al. 2015,
arXiv:1502.01852)."""
ONE_CLASS = 0.98
"""Share of the most frequent class that is told: a model that always answers it is right that often."""
SHIFT = 3.0
"""Training standard deviations between the two means, and ratio of the two deviations, that are told."""
_CLASSES = 4
"""Classes whose counts are given as evidence, at most."""
REPEATED = 0.1
"""Share of validation examples that also train, from which on it is told."""
_ROWS_AT_MOST = 100_000_000
"""Elements of the training inputs up to which equal rows are looked for: a tenth of a second."""
_NORMALISATIONS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def data_faults(
    model: nn.Module, train: BatchSource, val: BatchSource | None, *, has_target: bool
) -> list[AnomalyFrame]:
    """Return what is wrong with data in memory; data of other kinds are not looked at.

    Args:
        model: What is trained; inputs of a large scale are no fault if it normalises them first.
        train: The training data. Its tensors are inputs and, if `has_target`, the target behind them, each ``[N, ...]``.
        val: The validation data likewise, or None.
        has_target: Whether the last tensor is the target.
    """
    if not isinstance(train, TensorSource) or train.tensors[0].shape[0] < FEW:
        return []
    inputs, target = _parts(train.tensors, has_target)
    found = [*_of_target(target), *_of_inputs(model, inputs)]
    if isinstance(val, TensorSource) and len(val.tensors) == len(train.tensors):
        held_out, _ = _parts(val.tensors, has_target)
        if val.tensors[0].shape[0] >= FEW:
            found += [*_shifted(inputs, held_out), *_repeated(inputs, held_out)]
    return [AnomalyFrame(0, kind, message, None, hint, evidence) for kind, message, hint, evidence in found]


_Fault = tuple[str, str, str, Evidence]
"""Kind, message, hint, and the numbers that show it."""
_Said = Iterator[_Fault]


def _parts(tensors: Sequence[Tensor], has_target: bool) -> tuple[Sequence[Tensor], Tensor | None]:
    return (tensors[:-1], tensors[-1]) if has_target and len(tensors) > 1 else (tensors, None)


def _sample(tensor: Tensor) -> Tensor:
    return tensor[:: -(-tensor.shape[0] // SAMPLE)]


def _of_target(target: Tensor | None) -> _Said:
    if target is None or target.is_complex() or target.numel() == 0:
        return
    sample = _sample(target)
    if bool((sample == sample[:1]).all()):
        yield (
            "constant-target",
            f"Every target is the same{f': {sample[0].item()}' if sample[0].numel() == 1 else ''}.",
            "There is nothing to learn: look at how the targets were made.",
            (("different targets", 1), ("targets", target.shape[0])),
        )
    elif target.ndim == 1 and not target.is_floating_point():
        classes, counts = sample.unique(return_counts=True)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        share = float(counts.max()) / sample.shape[0]
        if share >= ONE_CLASS:
            yield (
                "one-class",
                (
                    f"{share:.1%} of the targets are class {int(classes[counts.argmax()])}: a model that always answers it is"
                    " right as often."
                ),
                (
                    "Weigh the classes in the loss (weight=), draw rare ones more often, and watch a metric other than"
                    " accuracy."
                ),
                tuple(
                    (f"class {int(classes[at])}", float(counts[at]))
                    for at in counts.argsort(descending=True)[:_CLASSES]
                ),
            )


def _of_inputs(model: nn.Module, inputs: Sequence[Tensor]) -> _Said:
    normalised = isinstance(_first_layer(model), _NORMALISATIONS)
    for label, tensor in _floating(inputs):
        sample = _sample(tensor).float()
        if bool((sample == sample[:1]).all()):
            yield (
                "constant-input",
                f"Every example of {label} is the same.",
                "There is nothing to tell examples apart by: look at how the data were made.",
                (("different examples", 1), ("examples", tensor.shape[0])),
            )
        mean, deviation = _moments(sample)
        if LARGE < max(abs(mean), deviation) < math.inf and not normalised:
            yield (
                "large-input",
                (
                    f"{label[0].upper()}{label[1:]} has mean {mean:.4g} and standard deviation {deviation:.4g}; layers expect"
                    " about 0 and 1."
                ),
                "Standardise it: (x - mean) / std, with mean and std of the training data, or begin with BatchNorm.",
                (("mean", mean), ("standard deviation", deviation), ("usual deviation", 1.0)),
            )


def _shifted(inputs: Sequence[Tensor], held_out: Sequence[Tensor]) -> _Said:
    for (label, tensor), (_, other) in zip(_floating(inputs), _floating(held_out), strict=False):
        mean, deviation = _moments(_sample(tensor).float())
        there, spread = _moments(_sample(other).float())
        if deviation == 0.0 or not all(map(math.isfinite, (mean, deviation, there, spread))):
            continue
        if abs(there - mean) > SHIFT * deviation or not 1 / SHIFT <= spread / deviation <= SHIFT:
            yield (
                "validation-scaled-otherwise",
                (
                    f"{label[0].upper()}{label[1:]} has mean {mean:.4g} and standard deviation {deviation:.4g} in the training"
                    f" data, but {there:.4g} and {spread:.4g} in the validation data."
                ),
                "Scale both alike, with mean and std of the training data.",
                (
                    ("training, mean", mean),
                    ("validation, mean", there),
                    ("training, deviation", deviation),
                    ("validation, deviation", spread),
                ),
            )


def _repeated(inputs: Sequence[Tensor], held_out: Sequence[Tensor]) -> _Said:
    if len(inputs) != 1 or inputs[0].shape[1:] != held_out[0].shape[1:] or inputs[0][0].numel() < 4:
        return
    [ours], [theirs] = inputs, held_out
    if ours.numel() > _ROWS_AT_MOST or ours.is_complex() or ours.layout != torch.strided:
        return
    # Of numbers drawn by chance, the sum of a row tells it apart from others; drawn apart from everybody's numbers.
    draws = torch.Generator().manual_seed(0)
    factors = torch.rand(ours[0].numel(), generator=draws, dtype=torch.float64).to(ours.device)
    rows, held = (tensor.flatten(1).to(torch.float64) @ factors for tensor in (ours, _sample(theirs)))
    different = held.unique().numel()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    if different < (1 - REPEATED) * held.numel():
        return  # examples of few values are equal by chance
    share = float(torch.isin(held, rows).double().mean())
    if share >= REPEATED:
        yield (
            "validation-in-training",
            f"{share:.0%} of the validation examples are also in the training data.",
            "Split before examples are copied or augmented; until then, the validation is too good to be true.",
            (("also in training", share), ("all of the validation", 1.0)),
        )


def _floating(inputs: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
    for index, tensor in enumerate(inputs):
        if (
            (tensor.is_floating_point() or tensor.dtype == torch.uint8)
            and tensor.numel()
            and tensor.layout == torch.strided
        ):
            yield ("the input" if len(inputs) == 1 else f"input {index}", tensor)


def _moments(sample: Tensor) -> tuple[float, float]:
    return float(sample.mean()), float(sample.std(correction=0))


def _first_layer(model: nn.Module) -> nn.Module | None:
    """Return the first layer with parameters or running statistics, in the order in which layers were made."""
    layers = (module for module in model.modules() if not any(module.children()))
    return next((layer for layer in layers if [*layer.parameters(), *layer.buffers()]), None)
