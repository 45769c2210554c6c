"""Functions of output and targets for the losses and metrics of a training graph."""

from __future__ import annotations

from typing import Any, final

from torch import Tensor, nn


@final
class Objective:
    """Computes the inputs of losses or metrics from the model's output and the batch's targets.

    Args:
        module: The nodes between them.
        picks: Of each of its arguments, whether it is an output (0) or a target (1), and which.
        outputs: How many outputs the model has; one alone is no tuple.
    """

    def __init__(self, module: nn.Module, picks: tuple[tuple[int, int], ...], outputs: int) -> None:
        self.module = module
        self._picks = picks
        self._outputs = outputs

    def __call__(self, output: Any, target: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the results, one for each end: `[]` of a loss, otherwise as the nodes compute them.

        Shape:
            - output: `[N, ...]`, or a tuple of such tensors where the model has several outputs.
            - target: a tuple of tensors `[N, ...]`.
        """
        given = (output if self._outputs > 1 else (output,), target)
        results = self.module(*(given[side][index] for side, index in self._picks))
        return results if isinstance(results, tuple) else (results,)


@final
class WeighedLoss:
    """The weighted sum of the losses of a training graph; there is one weight for each."""

    def __init__(self, objective: Objective, weights: list[float]) -> None:
        self._objective = objective
        self._weights = weights

    @property
    def layer(self) -> nn.Module | None:
        """The layer that makes the loss, if it is one alone."""
        layers = [layer for layer in self._objective.module.modules() if hasattr(layer, "reduction")]
        return layers[0] if len(layers) == len(self._weights) == 1 else None

    def __call__(self, output: Any, target: Any) -> Tensor:
        """Return the sum `[]`; for the shapes of the arguments see `Objective`."""
        terms = self._objective(output, target)
        total: Tensor = sum(
            term if weight == 1.0 else term * weight for term, weight in zip(terms, self._weights, strict=True)
        )
        return total


def comparing_layer(loss: Any) -> Any:
    """Return what compares output and target: the loss itself, or the one layer of a drawn loss."""
    return loss.layer if isinstance(loss, WeighedLoss) else loss


def single_loss(loss: Any, target: Any) -> tuple[Any, Any]:
    """Return the layer that makes a loss, and its target `[N, ...]`, out of a training graph's; others as they are."""
    if not isinstance(loss, WeighedLoss):
        return loss, target
    return loss.layer, target[0] if isinstance(target, tuple) and len(target) == 1 else None
