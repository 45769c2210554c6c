"""Runs a training's model over any data between two steps: outputs, metrics, and what guessing would give."""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping
from contextlib import closing
from html import escape
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pnne_nb.compiler.analysis.buffers import kept_buffers
from pnne_nb.compiler.analysis.device_rule import to_device
from pnne_nb.compiler.analysis.example_inputs import TARGET_KEYS, argument_names, is_one_argument, spread_inputs
from pnne_nb.errors import TrainingError, shown
from pnne_nb.runtime.data.batches import Batch, as_batch, join_outputs
from pnne_nb.runtime.data.open_data import Table, open_source
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, StreamSource, TensorSource
from pnne_nb.runtime.data.tables import Given
from pnne_nb.runtime.loop.loss_weighting import weight_of
from pnne_nb.runtime.objective.losses import scores_for_loss, target_for_loss
from pnne_nb.runtime.objective.metrics import chosen_classes, reset, results
from pnne_nb.runtime.session.session import Session
from pnne_nb.runtime.setup.models import evaluating

GUESSES: Final = "guessing"


@final
class Evaluation(dict[str, float]):
    """Loss and metrics on some data, by name: ``engine.evaluate(test)["accuracy"]``.

    ``"guessing_accuracy"`` and ``"guessing_mae"`` are what the most frequent class of this data, or its mean, would have:
    a model that is not better has learned nothing.

    Attributes:
        examples: How many there were.
    """

    def __init__(self, figures: dict[str, float], examples: int) -> None:
        super().__init__(figures)
        self.examples = examples

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.4g}" for name, value in self.items())
        return f"Evaluation({self.examples:,} examples: {figures})"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th>{escape(name)}</th><td>{value:.4g}</td></tr>" for name, value in self.items())
        return f"<p>{self.examples:,} examples</p><table><tbody>{rows}</tbody></table>"


def evaluate(session: Session, data: Given | None) -> Evaluation:
    """Return loss and metrics; see `TrainingEngine.evaluate`."""
    recipe = session.loop.recipe
    metrics = copy.deepcopy(recipe.val_metrics)
    reset(metrics)
    total = weight = 0.0
    examples = 0
    classes: list[tuple[Tensor, Tensor]] = []
    quantities: list[tuple[Tensor, Tensor]] = []
    with closing(outputs(session, data)) as batches:
        for batch, output in batches:
            assert recipe.loss is not None, "outputs has looked"
            part = weight_of(recipe, batch)
            loss = float(recipe.loss(scores_for_loss(recipe.loss, output, batch.target), batch.target))
            total, weight = total + loss * (1.0 if part is None else part), weight + (1.0 if part is None else part)
            examples += batch.examples
            for metric in metrics.values():
                metric.update(output, batch.target)
            found = chosen_classes(output, batch.target)
            if found is not None:
                classes.append((found[0].flatten().cpu(), found[1].flatten().cpu()))
            elif _are_quantities(output, batch.target):
                quantities.append((output.flatten().double().cpu(), batch.target.flatten().double().cpu()))
    figures = {"loss": total / weight if weight else float("nan")}
    figures |= {name.removeprefix("_"): value for name, value in results(metrics, "").items()}
    if classes:
        wanted = torch.cat([target for _, target in classes]).long()
        figures[f"{GUESSES}_accuracy"] = float(wanted[wanted >= 0].bincount().max()) / max(1, len(wanted))
    elif quantities:
        figures |= _of_quantities(*(torch.cat(parts) for parts in zip(*quantities, strict=True)))
    return Evaluation(figures, examples)


def predict(session: Session, data: Any) -> Any:
    """Return the model's outputs; see `TrainingEngine.predict`."""
    recipe = session.loop.recipe
    data = session.reader.inputs(data)
    alone = isinstance(data, Mapping) and is_one_argument(data, session.model)
    given = (data,) if alone or isinstance(data, Tensor | np.ndarray | Table) else data
    _require_batch_axis(recipe.train, given)
    source = in_order(open_source(given, "data", batch_size=session.config.batch_size))
    has_target = recipe.compares and isinstance(given, Dataset | DataLoader)
    found = []
    try:
        with (
            session.lent() as model,
            kept_buffers(model),
            evaluating(model),
            torch.inference_mode(),
            recipe.precision.autocast(),
        ):
            for raw in source.batches(1):
                is_alone = (
                    not set(TARGET_KEYS) & set(raw)
                    if isinstance(raw, Mapping)
                    else isinstance(raw, tuple | list) and len(raw) == 1
                )
                batch = as_batch(raw, wants_target=has_target and not is_alone, model=recipe.called)
                inputs, named = (to_device(part, recipe.device) for part in (batch.inputs, batch.named))
                found.append(to_device(model(*inputs, **named), torch.device("cpu")))
    finally:
        source.close()
    return join_outputs(found)


def _require_batch_axis(train: BatchSource, given: Any) -> None:
    """Refuse inputs that have the shapes of one example of the training data.

    Raises:
        TrainingError: See above.
    """
    if not isinstance(train, TensorSource) or not isinstance(given, tuple | list):
        return
    inputs = train.tensors[: len(given)]
    if isinstance(given, list) and len(given) > 1 and all(np.shape(part) == inputs[0].shape[1:] for part in given):
        raise TrainingError(f"data is a list of {len(given)} examples. Write engine.predict(torch.stack(examples)).")
    if all(
        isinstance(part, Tensor | np.ndarray) and part.ndim and tuple(part.shape) == tuple(known.shape[1:])
        for part, known in zip(given, inputs, strict=False)
    ):
        raise TrainingError(
            f"data has the shape {tuple(given[0].shape)} of a single example, and the model takes several in a batch. Write "
            "engine.predict(X[None]), or engine.predict(X[:1]) of all of them."
        )


def outputs(session: Session, data: Given | None) -> Generator[tuple[Batch, Any]]:
    """Yield each batch of `data`, ready for the loss, with the model's output for it; a running training waits.

    Args:
        session: The training.
        data: None for its validation data, or without any its training data.

    Raises:
        TrainingError: Only the model or a step function knows how to compare.
    """
    recipe = session.loop.recipe
    if not recipe.compares:
        raise TrainingError(
            "Output and target are compared by the model itself or by a step function, so nothing else can compare them."
        )
    if data is None:
        source = in_order(recipe.val or recipe.train)
    else:
        given_data = session.reader.read(spread_inputs(data, argument_names(session.model)), "data")
        source = open_source(given_data, "data", batch_size=session.config.batch_size, seed=session.config.seed)
    try:
        with (
            session.lent() as model,
            kept_buffers(model),
            evaluating(model),
            torch.no_grad(),
            recipe.precision.autocast(),
        ):
            for raw in source.batches(1):
                given = as_batch(raw, wants_target=True, model=recipe.called)
                inputs, named, target = (
                    to_device(part, recipe.device) for part in (given.inputs, given.named, given.target)
                )
                output = model(*inputs, **named)
                yield Batch(inputs, named, target_for_loss(recipe.loss, output, target), given.examples), output
    finally:
        source.close()


def in_order(source: BatchSource) -> BatchSource:
    """Return the data in its own order, for reading it independently of the training."""
    match source:
        case TensorSource():
            return TensorSource(source.tensors, batch_size=source.batch_size, shuffle=False, seed=0)
        case DatasetSource():
            return DatasetSource(source.template, shuffle=False, seed=0)
        case StreamSource():
            return StreamSource(source.loader)
        case _:
            raise TrainingError(f"{shown(source)} cannot be read beside the training: give data=(X, y).")


def _are_quantities(output: Any, target: Any) -> bool:
    return (
        isinstance(output, Tensor)
        and isinstance(target, Tensor)
        and target.is_floating_point()
        and output.numel() == target.numel()
    )


def _of_quantities(predicted: Tensor, wanted: Tensor) -> dict[str, float]:
    """Return R², 1 - Σ(y - f)² ÷ Σ(y - mean)², and the mean absolute errors of the model and of the mean."""
    spread = (wanted - wanted.mean()).square().sum()
    r2 = 1 - (wanted - predicted).square().sum() / spread
    return {
        "r2": float(r2) if spread > 0 else float("nan"),
        "mae": float((wanted - predicted).abs().mean()),
        f"{GUESSES}_mae": float((wanted - wanted.mean()).abs().mean()),
    }
