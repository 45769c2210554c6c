"""Weights the parts of a batch in the loss of the whole batch.

A batch is in parts where several processes share it, and where memory is too small for all of it. Each part has a loss of
its own, and their weighted sum must be the loss of the whole batch. A mean over examples is weighted by their number. With
class weights or ignored targets, torch's means divide by another number; sums are added as they are. How a user's own loss
function treats its examples is found out by a trial on parts of a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, final

import torch
from torch import Tensor, nn

from pnne_nb.runtime.data.batches import Batch, tensors_in
from pnne_nb.runtime.faults.oom_recovery import cut
from pnne_nb.runtime.objective.objective import WeighedLoss
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.telemetry.frames import AnomalyFrame

_FUNCTIONS = (nn.functional.cross_entropy, nn.functional.nll_loss)
_IGNORED = -100
"""The target that they ignore unless told otherwise."""

Reduction: TypeAlias = Literal["mean", "sum", "other"]
"""How a user's own loss function combines its examples."""
REDUCTIONS: tuple[Reduction, ...] = ("mean", "sum", "other")


class WeightsChangedError(Exception):
    """The current step has weighted the parts of its batches wrongly, and must be repeated."""


@final
class LossReduction:
    """How the loss function combines its examples: the `kind`, None until it was determined at the first batch in parts."""

    def __init__(self) -> None:
        self.kind: Reduction | None = None

    def learn(self, recipe: Recipe, output: Any, batch: Batch, value: float) -> bool:
        """Determine the kind from the loss of a part, unless it is known; all processes call this together.

        Args:
            recipe: Has the loss function and the processes.
            output: Of the model for `batch`: tensors `[N, ...]`, N examples, or collections of them.
            batch: The part; it may have no examples that count.
            value: Its loss.

        Returns:
            Whether it was found out just now.
        """
        if self.kind is not None or _is_known(recipe):
            return False
        found = _tried(recipe, output, batch, value) if batch.counts else None
        votes = recipe.peers.sum([float(found == kind) for kind in REDUCTIONS])
        agreed = [kind for kind, count in zip(REDUCTIONS, votes, strict=True) if count]
        if agreed:
            self.kind = agreed[0] if len(agreed) == 1 else "other"
        return bool(agreed)

    def learn_in_step(self, recipe: Recipe, output: Any, batch: Batch, value: float, step: int) -> AnomalyFrame | None:
        """Do the same in optimizer step number `step`, whose weights were chosen before; see `learn` for the other arguments.

        Shape:
            - output: tensors `[N, ...]`, or collections of them.

        Returns:
            A notice about a loss that no weights make exact, or None.

        Raises:
            WeightsChangedError: The weights were wrong.
        """
        if not self.learn(recipe, output, batch, value) or self.kind == "mean":
            return None
        if self.kind == "sum":
            raise WeightsChangedError
        name = getattr(recipe.loss, "__name__", "")
        message = (
            f"The loss{f' {name}' * bool(name)} is neither a mean nor a sum over the examples, and each batch is in "
            "parts: each counts by its number of examples, which approximates the loss of the whole batch."
        )
        hint = "start() with a smaller batch_size needs no parts; torch's own losses are weighed exactly."
        return AnomalyFrame(step, "inexact-parts", message, hint=hint)


def _is_known(recipe: Recipe) -> bool:
    """Return whether the loss function is torch's own, or computed by the model: neither needs a trial."""
    loss = recipe.loss.layer if isinstance(recipe.loss, WeighedLoss) else recipe.loss
    ours = any(loss is known for known in _FUNCTIONS) or type(loss).__module__.startswith("torch.nn.")
    return not recipe.compares or ours


def _tried(recipe: Recipe, output: Any, batch: Batch, value: float) -> Reduction | None:
    """Determine from parts of `batch` how the loss function combines its N examples, whose loss is `value`; None if unclear.

    Shape:
        - output: tensors `[N, ...]`, or collections of them.
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
    """Return the weight of each batch in the loss of a step, and the number of examples in all processes.

    The sum of the weights over all processes is 1, unless the loss is a sum.

    Args:
        recipe: Has the loss function, and the processes, which all call this.
        batches: Whole batches, or parts of them.
        of: For each of them, the number of the whole batch, from 0.
        reduction: What was found out about the loss function.
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
    """Return the divisor of a part's loss, or None if the losses of parts are added up.

    Torch's own losses are known. Any other one is taken for a mean over the examples, unless `reduction` says what was
    found out.
    """
    loss, target = recipe.loss, batch.target
    if isinstance(loss, WeighedLoss):
        loss, target = loss.layer, target[0] if isinstance(target, tuple) and len(target) == 1 else None
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
