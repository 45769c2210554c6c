"""Splits real examples into those that calibrate a model and held-out ones that judge it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
import torch
from torch import Tensor

from pnne_nb.compiler.analysis.device_rule import CPU, to_device
from pnne_nb.compiler.analysis.example_inputs import TARGET_KEYS, spread_inputs
from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import ArgumentError, ExportError, shown
from pnne_nb.export.attempt import prepare
from pnne_nb.export.subject.example_batches import require_tensors
from pnne_nb.export.subject.subject import Subject, input_names
from pnne_nb.runtime.data.batches import Batch, as_batch
from pnne_nb.runtime.data.open_data import Array, Data, open_source
from pnne_nb.runtime.data.sources import BatchSource
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.objective.losses import loss_for, make_loss, scores_for_loss, target_for_loss
from pnne_nb.runtime.objective.metric_choices import NAMES, make_metrics
from pnne_nb.runtime.objective.metrics import are_classes, numbers_of
from pnne_nb.runtime.session.evaluate import in_order

CALIBRATION = 512
"""Examples at most that ranges are measured on."""

HELD_OUT = 8192
"""Examples at most that a model is judged by."""

BATCH_SIZE = 64

Budget: TypeAlias = tuple[str, float]
"""A number of an epoch, such as ``"val_accuracy"``, and what it may lose, in percent."""

_LESS = frozenset({"loss", "mae", "mse", "perplexity"})
"""Metrics of which less is better."""

_SHARES = frozenset({"accuracy", "precision", "recall", "f1", "auroc"})
"""Metrics between 0 and 1: what they lose is told in points of a percentage."""


@final
@dataclass(frozen=True, slots=True)
class Examples:
    """A model and real examples for it.

    Attributes:
        subject: A copy of the model in eval mode on the CPU, with its document.
        calibration: Batches to measure ranges on.
        held_out: Other batches, to judge by.
        notes: How the data was divided, if it was.
    """

    subject: Subject
    calibration: tuple[Batch, ...]
    held_out: tuple[Batch, ...]
    notes: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return sum(batch.examples for batch in self.held_out)


def read_examples(given: object, data: Data | Array | None, val_data: Data | Array | None, reuse: Reuse) -> Examples:
    """Return a model with examples: `data` calibrates and `val_data` judges; without `val_data`, `data` is split.

    Args:
        given: A graph, a module, or a `TrainingEngine`, whose own data is taken if there is no other.
        data: Inputs and targets in any form that `TrainingEngine` takes; the targets may be missing.
        val_data: The same.
        reuse: Other weights than those of a graph.

    Raises:
        ArgumentError: If there is no data, or too little to divide.
        ExportError: If the model is unfinished, has no drawing, or does not take the data; diagnostics name the nodes.
    """
    names = input_names(given)
    if names is None:
        raise ArgumentError(f"Give a NodeGraph, an nn.Module or a TrainingEngine, not {shown(given)}.")
    if isinstance(given, TrainingEngine) and data is None:
        recipe = given._loop.recipe
        source, judging = in_order(recipe.train), None if recipe.val is None else in_order(recipe.val)
    elif data is None:
        raise ArgumentError(
            "There is no data to calibrate with: give data=(X, y). Ranges of inputs are measured on real examples; random "
            "ones rank the nodes wrongly."
        )
    else:
        source = _opened(spread_inputs(data, names), "data")
        judging = None if val_data is None else _opened(spread_inputs(val_data, names), "val_data")
    with torch.no_grad():
        batches = list(_batches(source, names, CALIBRATION if judging is not None else HELD_OUT))
        held_out = [] if judging is None else list(_batches(judging, names, HELD_OUT))
    subject, _, _ = prepare(given, batches[0].inputs, None, reuse)
    notes: tuple[str, ...] = ()
    if judging is None:
        batches, held_out = _divided(batches)
        counts = (sum(batch.examples for batch in part) for part in (batches, held_out))
        notes = ("Of the data, {} examples calibrate and {} others judge; val_data= gives others.".format(*counts),)
    return Examples(subject, tuple(batches), tuple(held_out), notes)


def _opened(data: Data | Array, name: str) -> BatchSource:
    arrays: Data = (data,) if isinstance(data, (Tensor, np.ndarray)) else data  # type: ignore[assignment]  # the rest is data
    return open_source(arrays, name, batch_size=BATCH_SIZE)


def _batches(source: BatchSource, names: Sequence[str], most: int) -> Iterator[Batch]:
    """Yield batches with positional inputs, until there are enough examples."""
    seen = 0
    with closing(source):
        for raw in source.batches(1):
            batch = _batch(to_device(raw, CPU), names)
            yield batch
            seen += batch.examples
            if seen >= most:
                return


def _batch(raw: Any, names: Sequence[str]) -> Batch:
    for name, part in zip(names, raw, strict=False) if isinstance(raw, (tuple, list)) else ():
        require_tensors(name, part)
    if isinstance(raw, Mapping):
        batch = as_batch(raw, wants_target=any(key in raw and key not in names for key in TARGET_KEYS))
        if missing := [name for name in names if name not in batch.named]:
            raise ExportError(f"The data has no {', '.join(map(repr, missing))}; it has {', '.join(map(repr, raw))}.")
        return Batch(tuple(batch.named[name] for name in names), {}, batch.target, batch.examples)
    several = isinstance(raw, (tuple, list))
    return as_batch(raw, wants_target=several and len(raw) > len(names))


def _divided(batches: list[Batch]) -> tuple[list[Batch], list[Batch]]:
    """Return every fourth batch, and the others, because data may be sorted by class."""
    if len(batches) == 1:
        batches = list(_halves(batches[0]))
    first, others = batches[::4], [batch for place, batch in enumerate(batches) if place % 4]
    enough = max(1, CALIBRATION // max(1, first[0].examples))
    return first[:enough], others


def _halves(batch: Batch) -> Iterator[Batch]:
    if batch.examples < 8:
        raise ArgumentError(
            f"data has {batch.examples} examples, too few to calibrate on some and judge by others: give at least 8, or val_data."
        )
    for place in range(2):
        yield Batch(
            tuple(part[place::2] for part in batch.inputs),
            {},
            None if batch.target is None else batch.target[place::2],
            len(range(place, batch.examples, 2)),
        )


def joined(batches: Sequence[Batch]) -> Data:
    """Return batches as one tuple of tensors, inputs before the target."""
    parts = [torch.cat([batch.inputs[place] for batch in batches]) for place in range(len(batches[0].inputs))]
    if batches[0].target is not None:
        parts.append(torch.cat([batch.target for batch in batches]))
    return tuple(parts)


@final
class HeldOutCriterion:
    """The number that judges a model.

    Args:
        budget: Its name and what it may lose; None chooses by the targets.
        examples: The model and its data.

    Attributes:
        name: With ``val_`` before it; empty if the data has no targets.
        budget: What it may lose, in points of a percentage for shares such as accuracy, else in percent of the value.

    Raises:
        ArgumentError: If the budget is no such pair, or the data has no targets for it.
        TrainingError: If there is no metric of that name.
    """

    def __init__(self, budget: Budget | None, examples: Examples) -> None:
        target = examples.held_out[0].target
        if budget is None and target is None:
            self.name, self.budget = "", float("inf")
            return
        if budget is None:
            budget = ("val_accuracy", 0.5) if are_classes(target) else ("val_loss", 1.0)
        match budget:
            case (str() as name, int() | float() as points) if not isinstance(points, bool) and points >= 0:
                self._metric, self.budget = name.removeprefix("val_"), float(points)
            case _:
                raise ArgumentError(
                    f'budget must be a metric and what it may lose in percent, such as ("val_accuracy", 0.5), not {shown(budget)}.'
                )
        if target is None:
            raise ArgumentError(f"The data has no targets, so {name} cannot be measured: give (X, y), or budget=None.")
        self.name = f"val_{self._metric}"
        self._loss = None
        if self._metric == "loss":
            with torch.inference_mode():
                output = examples.subject.model(*(part[:1] for part in examples.held_out[0].inputs))
            self._loss = make_loss(loss_for(output, target).name)
        else:
            make_metrics((self._metric,), torch.device("cpu"))

    def value(self, run: Callable[..., Any], batches: Sequence[Batch]) -> float:
        """Return the number for a model over all `batches`, which have targets; NaN if there is none.

        `run` takes the inputs of a batch, and returns the model's outputs.
        """
        if not self.name:
            return float("nan")
        with torch.inference_mode():
            if self._loss is not None:
                total = 0.0
                for batch in batches:
                    output = run(*batch.inputs)
                    wanted = target_for_loss(self._loss, output, batch.target)
                    loss = self._loss(scores_for_loss(self._loss, output, wanted), wanted)
                    total += float(loss) * batch.examples
                return total / sum(batch.examples for batch in batches)
            ((name, metric),) = make_metrics((self._metric,), torch.device("cpu")).items()
            for batch in batches:
                metric.update(run(*batch.inputs), batch.target)
            found = numbers_of(name, metric.compute())
        return next(iter(found.values()), float("nan"))

    def lost(self, before: float, after: float) -> float:
        """Return what the number has lost, in the unit of the budget; less than 0 if it became better."""
        if not self.name:
            return 0.0
        if NAMES.get(self._metric, self._metric) in _SHARES:
            return 100 * (before - after)
        worse = after - before if NAMES.get(self._metric, self._metric) in _LESS else before - after
        lost = 100 * worse / max(abs(before), 1e-12)
        return float("inf") if math.isnan(lost) else lost
