"""What a part of a batch counts for in the loss of the whole: parts are made by processes, and by too little memory.

A mean over examples counts by their number. With weights of classes, or with targets to be ignored, torch's means divide
by something else, and a sum by nothing: only so does a batch in parts say what it would have said as a whole. What a loss
of somebody's own does is found out by trying it on parts of a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from pnne_nb.runtime.batches import Batch, tensors_in
from pnne_nb.runtime.easing import cut
from pnne_nb.runtime.judging import WeighedLoss
from pnne_nb.runtime.recipe import Recipe

_FUNCTIONS = (nn.functional.cross_entropy, nn.functional.nll_loss)
_IGNORED = -100
"""The target that they ignore unless told otherwise."""

Reduction: TypeAlias = Literal["mean", "sum", "other"]
"""What a loss of somebody's own makes of its examples."""
REDUCTIONS: tuple[Reduction, ...] = ("mean", "sum", "other")


def is_known(recipe: Recipe) -> bool:
    """Whether what the loss makes of its examples need not be tried, or cannot be."""
    loss = recipe.loss.layer if isinstance(recipe.loss, WeighedLoss) else recipe.loss
    ours = any(loss is known for known in _FUNCTIONS) or type(loss).__module__.startswith("torch.nn.")
    return not recipe.compares or ours


def tried(recipe: Recipe, output: Any, batch: Batch, value: float) -> Reduction | None:
    """What the loss makes of the examples of `batch`, by the losses of parts of it; None where that tells nothing.

    Args:
        recipe: Names the loss.
        output: Of the model.
        batch: What it belongs to.
        value: Its loss.
    """
    count, loss = batch.examples, recipe.loss
    if count < 2 or not value or loss is None:
        return None
    whole = (output.detach() if isinstance(output, Tensor) else output, batch.target)
    cuda = [recipe.device] if recipe.device.type == "cuda" else []
    short = any(tensor.dtype in (torch.float16, torch.bfloat16) for tensor in tensors_in(output))
    close = (2e-2 if short else 1e-3) * abs(value)
    fits: set[Reduction] = {"mean", "sum"}
    with torch.no_grad(), recipe.precision.autocast(), torch.random.fork_rng(cuda):
        for edge in {count // 2, count // 4 or 1}:
            spans = slice(0, edge), slice(edge, count)
            parts = [cut(whole, span, count) for span in spans]
            try:
                first, second = (float(loss(*part)) for part in parts)
            except (RuntimeError, IndexError, TypeError, ValueError):
                return "other"
            said = {"mean": (first * edge + second * (count - edge)) / count, "sum": first + second}
            fits -= {kind for kind in said if not abs(said[kind] - value) <= close}
    if len(fits) > 1:
        return None
    return next(iter(fits), "other")


def shares(
    recipe: Recipe, batches: Sequence[Batch], of: Sequence[int], reduction: Reduction | None = None
) -> tuple[list[float], int]:
    """By how much the loss of each of `batches` counts in that of a step.

    Args:
        recipe: Names the loss, and the processes, which all call this.
        batches: Whole, or parts of whole ones.
        of: For each of them, the number of the whole batch, from 0.
        reduction: What was found out about the loss.

    Returns:
        The factors, whose sum over all processes is 1 unless the loss is a sum, and the examples of all processes.
    """
    peers = recipe.peers
    if len(batches) == 1 and peers.count == 1:
        return [1.0], batches[0].examples
    weights = [weight_of(recipe, batch, reduction) for batch in batches]
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


def weight_of(recipe: Recipe, batch: Batch, reduction: Reduction | None = None) -> float | None:
    """What the loss of a part divides by, or None where the losses of parts add up to that of the whole.

    Of torch's own losses, that is known; any other one is taken for a mean over the examples, unless `reduction` says
    what was found out.
    """
    loss, target = recipe.loss, batch.target
    if isinstance(loss, WeighedLoss):
        loss, target = loss.layer, _only(target)
    if not (recipe.compares and batch.counts):
        return float(batch.examples)
    match getattr(loss, "reduction", None):
        case "sum" if isinstance(loss, nn.Module):
            return None
        case "mean" if isinstance(loss, nn.CrossEntropyLoss | nn.NLLLoss) and _is_of_classes(target):
            return _weight(target, loss.weight, loss.ignore_index)
        case _ if any(loss is known for known in _FUNCTIONS) and _is_of_classes(target):
            return _weight(target, None, _IGNORED)
    return None if reduction == "sum" else float(batch.examples)


def counts_for_nothing(output: Any, loss: Tensor) -> Tensor:
    """A loss of zero that reaches back through `output`: of a part that is ignored as a whole, `loss` is no number."""
    parts = [tensor.flatten()[:0].sum() for tensor in tensors_in(output) if tensor.requires_grad]
    return torch.stack(parts).sum() if parts else loss * 0.0


def _only(targets: Any) -> Any:
    return targets[0] if isinstance(targets, tuple) and len(targets) == 1 else None


def _is_of_classes(target: Any) -> bool:
    return isinstance(target, Tensor) and target.dim() > 0 and not target.is_floating_point()


def _weight(target: Tensor, weight: Tensor | None, ignored: int) -> float:
    """By examples where nothing is ignored or weighed, else as torch divides; for targets of any shape."""
    taken = target != ignored
    if weight is None:
        return int(taken.sum()) * len(target) / target.numel() if target.numel() else 0.0
    # A target that does not exist is the loss's to name.
    return float((weight.to(target.device)[target.clamp(0, len(weight) - 1)] * taken).sum())
