"""Weights the parts of a batch in the loss of the whole batch.

A batch is in parts where several processes share it, and where memory is too small for all of it. Each part has a loss of
its own, and their weighted sum must be the loss of the whole batch. A mean over examples is weighted by their number. With
class weights or ignored targets, torch's means divide by another number; sums are added as they are. A loss of the user's
own says by its ``reduction`` which of both it is, as torch's do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import Batch, tensors_in
from pnne_nb.runtime.objective.objective import WeighedLoss
from pnne_nb.runtime.setup.recipe import Recipe

_FUNCTIONS = (nn.functional.cross_entropy, nn.functional.nll_loss)
_IGNORED = -100
"""The target that they ignore unless told otherwise."""


def says_reduction(recipe: Recipe) -> bool:
    """Return whether it is known how the loss joins its examples: it is torch's own, or its ``reduction`` says it."""
    loss = recipe.loss.layer if isinstance(recipe.loss, WeighedLoss) else recipe.loss
    if any(loss is known for known in _FUNCTIONS) or type(loss).__module__.startswith("torch.nn."):
        return recipe.compares
    return recipe.compares and getattr(loss, "reduction", None) in ("mean", "sum")


def require_reduction(recipe: Recipe) -> None:
    """Raise a `TrainingError` if a loss of the user's own does not say how it joins its examples."""
    if not recipe.compares or says_reduction(recipe):
        return
    name = getattr(recipe.loss, "__name__", type(recipe.loss).__name__)
    raise TrainingError(
        f"Each process has a part of a batch, and the loss {name} does not say whether it is a mean or a sum over its "
        'examples. Write loss.reduction = "mean", or "sum", of this loss where it is defined, and launch() again.'
    )


def shares(recipe: Recipe, batches: Sequence[Batch], of: Sequence[int]) -> tuple[list[float], int]:
    """Return the weight of each batch in the loss of a step, and the number of examples in all processes.

    The sum of the weights over all processes is 1, unless the loss is a sum.

    Args:
        recipe: Has the loss function, and the processes, which all call this.
        batches: Whole batches, or parts of them.
        of: For each of them, the number of the whole batch, from 0.
    """
    peers = recipe.peers
    if len(batches) == 1 and peers.count == 1:
        return [1.0], batches[0].examples
    weights = [weight_of(recipe, batch) for batch in batches]
    counted, weighed = [0.0] * (of[-1] + 1), [0.0] * (of[-1] + 1)
    for batch, weight, number in zip(batches, weights, of, strict=True):
        counted[number] += batch.examples
        weighed[number] += weight or 0.0
    joined = peers.sum([*counted, *weighed])
    counted, weighed = joined[: len(counted)], joined[len(counted) :]
    examples = int(sum(counted))
    if not examples:
        # Whoever has no examples has a loss of its own.
        return [1 / (len(batches) * peers.count)] * len(batches), 0
    found = []
    for batch, weight, number in zip(batches, weights, of, strict=True):
        plain = weighed[number] in {0.0, counted[number]}
        by_number = batch.examples if plain else counted[number] * (weight or 0.0) / weighed[number]
        found.append((counted[number] if weight is None and batch.counts else by_number) / examples)
    return found, examples


def weight_of(recipe: Recipe, batch: Batch) -> float | None:
    """Return the divisor of a part's loss, or None if the losses of parts are added up.

    A loss that does not say it is taken for a mean over the examples.
    """
    loss, target = recipe.loss, batch.target
    if isinstance(loss, WeighedLoss):
        loss, target = loss.layer, target[0] if isinstance(target, tuple) and len(target) == 1 else None
    if not (recipe.compares and batch.counts):
        return float(batch.examples)
    match getattr(loss, "reduction", None):
        case "sum":
            return None
        case "mean" if isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss) and _is_of_classes(target):
            return _weight(target, loss.weight, loss.ignore_index)
        case _ if any(loss is known for known in _FUNCTIONS) and _is_of_classes(target):
            return _weight(target, None, _IGNORED)
    return float(batch.examples)


def counts_for_nothing(output: Any, loss: Tensor) -> Tensor:
    """Return a differentiable loss of zero, for a part whose targets are all ignored and whose loss is NaN.

    Shape:
        - output: tensors `[N, ...]`, or collections of them.
        - loss: `[]`.
        - Returns: `[]`.
    """
    parts = [tensor.flatten()[:0].sum() for tensor in tensors_in(output) if tensor.requires_grad]
    return torch.stack(parts).sum() if parts else loss * 0.0


def _is_of_classes(target: Any) -> bool:
    return isinstance(target, Tensor) and target.dim() > 0 and not target.is_floating_point()


def _weight(target: Tensor, weight: Tensor | None, ignored: int) -> float:
    """Return the divisor of torch's mean: the number of counting targets, or the sum of their class weights.

    Shape:
        - target: `[N, ...]`, numbers of classes.
        - weight: `[C]`, one for each class, or None.
    """
    taken = target != ignored
    if weight is None:
        return int(taken.sum()) * len(target) / target.numel() if target.numel() else 0.0
    # A target that does not exist is the loss's to name.
    return float((weight.to(target.device)[target.clamp(0, len(weight) - 1)] * taken).sum())
