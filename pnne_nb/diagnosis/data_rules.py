"""Checks data in memory before the first step, for faults that break a training or distort its validation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import comparable
from pnne_nb.diagnosis.finding import Finding
from pnne_nb.diagnosis.first_step_rules import classes_under_distance
from pnne_nb.telemetry.frames import Evidence

SAMPLE = 10_000
"""Examples that statistics are taken of, evenly spread."""
FEW = 20
"""With fewer examples nothing is said."""
SMALL = 1e-3
"""Mean and standard deviation of inputs below which they are called small."""
LARGE = 100.0
"""Mean or standard deviation of inputs that is called large: the usual initialisations expect about 1 (He et al. 2015,
arXiv:1502.01852)."""
ONE_CLASS = 0.98
"""Share of the most frequent class that is told: a model that always answers it is right that often."""
SHIFT = 2.0
"""Training standard deviations between the two means, and ratio of the two deviations, that are told."""
_MIDDLE = (0.05, 0.95)
"""Quantiles whose distance must differ as much: a single outlier makes another deviation, too."""
_CLASSES = 4
"""Classes whose counts are given as evidence, at most."""
REPEATED = 0.1
"""Share of validation examples that also train, from which on it is told."""
COLUMNS = 32
"""Columns of a table, at most: inputs with more are often flattened pictures, whose corners are the same in all of them."""
UNTRAINED = 0.01
"""Share of validation examples of classes that the training data does not have, from which on it is told."""
_PER_CLASS = 10
"""Training examples for each different whole number from which on they are classes."""
_ROWS_AT_MOST = 100_000_000
"""Elements of the training inputs up to which equal rows are looked for: a tenth of a second."""
_NORMALISATIONS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


def data_faults(
    model: nn.Module,
    train: Sequence[Tensor] | None,
    val: Sequence[Tensor] | None,
    *,
    has_target: bool,
    loss: Any = None,
) -> list[Finding]:
    """Return the faults of data in memory.

    Args:
        model: What is trained; inputs of a large scale are no fault if it normalises them first.
        train: All training data: inputs and, if `has_target`, the target behind them, each ``[N, ...]``. None of data that
            cannot be looked at.
        val: The validation data likewise.
        has_target: Whether the last tensor is the target.
        loss: The loss function, if it is known.
    """
    if not train or train[0].shape[0] < FEW:
        return []
    inputs, target = _parts(train, has_target)
    held_out, judged = ((), None) if val is None or len(val) != len(train) else _parts(val, has_target)
    classes = () if target is None else classes_under_distance(loss, _sample(target))
    found = [*classes, *_of_target(target), *_of_inputs(model, inputs)]
    if held_out and held_out[0].shape[0] >= FEW:
        found += [*_shifted(inputs, held_out), *_repeated(inputs, held_out), *_never_trained(target, judged)]
    return [*found, *_still_columns(inputs)]


def _fault(kind: str, reason: str, hint: str, evidence: Evidence) -> Finding:
    return Finding(kind, None, reason, hint, evidence)


def _parts(tensors: Sequence[Tensor], has_target: bool) -> tuple[Sequence[Tensor], Tensor | None]:
    return (tensors[:-1], tensors[-1]) if has_target and len(tensors) > 1 else (tensors, None)


def _sample(tensor: Tensor) -> Tensor:
    return tensor[:: -(-tensor.shape[0] // SAMPLE)]


def _of_target(target: Tensor | None) -> Iterator[Finding]:
    if target is None or target.is_complex() or target.numel() == 0:
        return
    sample = _sample(target)
    if bool((sample == sample[:1]).all()):
        yield _fault(
            "constant-target",
            f"Every target is the same{f': {sample[0].item()}' if sample[0].numel() == 1 else ''}.",
            "There is nothing to learn: look at how the targets were made.",
            (("different targets", 1), ("targets", target.shape[0])),
        )
    elif target.ndim == 1 and not target.is_floating_point():
        classes, counts = sample.unique(return_counts=True)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        share = float(counts.max()) / sample.shape[0]
        if share >= ONE_CLASS:
            yield _fault(
                "one-class",
                f"{share:.1%} of the targets are class {int(classes[counts.argmax()])}: a model that always answers it is"
                " right as often.",
                "Weigh the classes in the loss (weight=), draw rare ones more often, and watch a metric other than"
                " accuracy.",
                tuple(
                    (f"class {int(classes[at])}", float(counts[at]))
                    for at in counts.argsort(descending=True)[:_CLASSES]
                ),
            )


def _of_inputs(model: nn.Module, inputs: Sequence[Tensor]) -> Iterator[Finding]:
    normalised = isinstance(_first_layer(model), _NORMALISATIONS)
    for label, tensor in _floating(inputs):
        sample = _sample(tensor).float()
        if bool((sample == sample[:1]).all()):
            yield _fault(
                "constant-input",
                f"Every example of {label} is the same.",
                "There is nothing to tell examples apart by: look at how the data were made.",
                (("different examples", 1), ("examples", tensor.shape[0])),
            )
        mean, deviation = _moments(sample)
        if LARGE < max(abs(mean), deviation) < math.inf and not normalised:
            yield _fault(
                "large-input",
                f"{label[0].upper()}{label[1:]} has mean {mean:.4g} and standard deviation {deviation:.4g}; layers expect"
                " about 0 and 1.",
                "Standardise it: (x - mean) / std, with mean and std of the training data, or begin with BatchNorm.",
                (("mean", mean), ("standard deviation", deviation), ("usual deviation", 1.0)),
            )

        elif 0 < max(abs(mean), deviation) < SMALL and not normalised:
            yield _fault(
                "small-input",
                f"{label[0].upper()}{label[1:]} has mean {mean:.4g} and standard deviation {deviation:.4g}; layers expect"
                " about 0 and 1, and hardly see such a signal.",
                "Standardise it: (x - mean) / std, with mean and std of the training data.",
                (("mean", mean), ("standard deviation", deviation), ("usual deviation", 1.0)),
            )


def _shifted(inputs: Sequence[Tensor], held_out: Sequence[Tensor]) -> Iterator[Finding]:
    for (label, tensor), (_, other) in zip(_floating(inputs), _floating(held_out), strict=False):
        mean, deviation = _moments(_sample(tensor).float())
        there, spread = _moments(_sample(other).float())
        if deviation == 0.0 or not all(map(math.isfinite, (mean, deviation, there, spread))):
            continue
        wider = _apart(spread / deviation) and _apart(_between(other) / (_between(tensor) or math.inf))
        if abs(there - mean) > SHIFT * deviation or wider:
            yield _fault(
                "validation-scaled-otherwise",
                f"{label[0].upper()}{label[1:]} has mean {mean:.4g} and standard deviation {deviation:.4g} in the training"
                f" data, but {there:.4g} and {spread:.4g} in the validation data.",
                "Scale both alike, with mean and std of the training data.",
                (
                    ("training, mean", mean),
                    ("validation, mean", there),
                    ("training, deviation", deviation),
                    ("validation, deviation", spread),
                ),
            )


def _apart(ratio: float) -> bool:
    return not 1 / SHIFT <= ratio <= SHIFT


def _between(tensor: Tensor) -> float:
    """Return the distance of two quantiles of a sample of inputs `[N, ...]`."""
    values = _sample(tensor).flatten()
    some = values[:: -(-len(values) // 100_000)].float()
    low, high = some.quantile(torch.tensor(_MIDDLE, device=some.device)).tolist()
    return float(high - low)


def _repeated(inputs: Sequence[Tensor], held_out: Sequence[Tensor]) -> Iterator[Finding]:
    if len(inputs) != 1 or inputs[0].shape[1:] != held_out[0].shape[1:] or inputs[0][0].numel() < 4:
        return
    [ours], [theirs] = inputs, held_out
    if ours.numel() > _ROWS_AT_MOST or ours.is_complex() or ours.layout != torch.strided:
        return
    # Of numbers drawn by chance, the sum of a row tells it apart from others; drawn apart from everybody's numbers.
    draws = torch.Generator().manual_seed(0)
    factors = torch.rand(ours[0].numel(), generator=draws, dtype=torch.float64)
    rows, held = comparable(
        *(tensor.flatten(1).to(torch.float64) @ factors.to(tensor.device) for tensor in (ours, _sample(theirs)))
    )
    different = held.unique().numel()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    if different < (1 - REPEATED) * held.numel():
        return  # examples of few values are equal by chance
    share = float(torch.isin(held, rows).double().mean())
    if share >= REPEATED:
        yield _fault(
            "validation-in-training",
            f"{share:.0%} of the validation examples are also in the training data.",
            "Split before examples are copied or augmented; until then, the validation is too good to be true.",
            (("also in training", share), ("all of the validation", 1.0)),
        )


def _never_trained(target: Tensor | None, judged: Tensor | None) -> Iterator[Finding]:
    if target is None or judged is None or target.ndim != 1 or judged.ndim != 1:
        return
    if any(each.is_floating_point() or each.is_complex() or each.dtype == torch.bool for each in (target, judged)):
        return
    target, judged = comparable(target, judged)
    known = target.unique()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    unknown, counts = judged[~torch.isin(judged, known)].unique(return_counts=True)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    share = float(counts.sum()) / judged.shape[0]
    if _PER_CLASS * len(known) <= target.shape[0] and share >= UNTRAINED:
        named = ", ".join(map(str, unknown[:_CLASSES].tolist())) + " …" * (len(unknown) > _CLASSES)
        yield _fault(
            "class-not-trained",
            f"{share:.0%} of the validation targets are of classes that no training example has: {named}.",
            "Split the data at random or by class, and look at how the classes are numbered in both parts.",
            (
                *(
                    (f"class {int(each)} in validation", float(count))
                    for each, count in zip(unknown[:2], counts, strict=False)
                ),
                ("in training", 0.0),
            ),
        )


def _still_columns(inputs: Sequence[Tensor]) -> Iterator[Finding]:
    for label, tensor in _floating(inputs):
        if tensor.ndim != 2 or not 2 <= tensor.shape[1] <= COLUMNS:
            continue
        still = (tensor == tensor[:1]).all(0)
        columns = still.nonzero().flatten().tolist()
        if 0 < len(columns) < tensor.shape[1]:
            named = ", ".join(map(str, columns[:_CLASSES])) + " …" * (len(columns) > _CLASSES)
            values = ", ".join(f"{tensor[0, at].item():.4g}" for at in columns[:_CLASSES])
            yield _fault(
                "constant-column",
                f"Column{'s' * (len(columns) > 1)} {named} of {label} {'are' if len(columns) > 1 else 'is'} the same in"
                f" every training example ({values}).",
                "Leave such columns out, or look at how they were read; divided by their deviation, they become NaN.",
                (("constant columns", len(columns)), ("columns", tensor.shape[1])),
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
    """Return the first layer with parameters or running statistics, in the order of registration."""
    layers = (module for module in model.modules() if not any(module.children()))
    return next((layer for layer in layers if [*layer.parameters(), *layer.buffers()]), None)
