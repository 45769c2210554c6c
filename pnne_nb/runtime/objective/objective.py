"""The losses and metrics of a training graph as functions of output and targets, and the goal of a training."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeAlias, final

import msgspec
from torch import Tensor, nn

from pnne_nb.compiler.codegen import loader
from pnne_nb.errors import TrainingError, near, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.node import Node


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

    def compares_in(self, graph: NodeGraph) -> bool:
        """Return whether the model's one output and one target go into ``input`` and ``target`` of a layer in its graph."""
        inputs = [node.name for node in graph.nodes.values() if node.type == "Input"]
        picks = dict(zip(inputs, self._picks, strict=True))
        ends = [(edge.source.rpartition(".")[0], edge.target.rpartition(".")[2]) for edge in graph.edges]
        given = {port: picks[name] for name, port in ends if name in picks}
        return given == {"input": (0, 0), "target": (1, 0)} and self._outputs == 1

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

    @property
    def alone(self) -> tuple[nn.Module | None, Node | None]:
        """The layer and its node where nothing but the one layer stands between the model's output, the target and the loss."""
        loaded = loader.loaded_from(self._objective.module)
        if self.layer is None or self._weights != [1.0] or loaded is None or loaded.document is None:
            return None, None
        graph = loaded.document.graph()
        between = [node for node in graph.nodes.values() if node.type not in {"Input", "Output"}]
        return (self.layer, between[0]) if len(between) == 1 and self._objective.compares_in(graph) else (None, None)

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


MonitorChoice: TypeAlias = "str | tuple[str, Literal['min', 'max']] | None"


class Goal(msgspec.Struct, frozen=True):
    """A number of each epoch that a training minimises or maximises.

    Attributes:
        name: In the history; None is the validation loss, without validation data the training loss.
        more: Whether more is better.
        min_delta: How much better is an improvement.
    """

    name: str | None = None
    more: bool = False
    min_delta: float = 0.0

    def called(self, *, validates: bool) -> str:
        """Return the name of the goal's number; for `validates`, see `cost`."""
        return self.name or ("val_loss" if validates else "train_loss")

    def cost(self, metrics: Mapping[str, float], *, validates: bool) -> float | None:
        """Return the number to minimise from the numbers of an epoch, or of a validation within it; None if it may still come.

        `validates` says whether there is validation data.

        Raises:
            TrainingError: There is no such number.
        """
        name = self.called(validates=validates)
        if name in metrics:
            return -metrics[name] if self.more else metrics[name]
        ended = "train_loss" in metrics and ("val_loss" in metrics or not validates)
        if ended or ("val_loss" in metrics and name.startswith("val_")):
            raise self._unmeasured(name, metrics)
        return None

    def require_measured(self, names: Collection[str] | None, *, validates: bool) -> None:
        """Raise an error if no epoch can have a number of that name.

        Args:
            names: What is measured beside the loss, without ``train_`` and ``val_``; None where that is not known yet.
            validates: Whether there is validation data.

        Raises:
            TrainingError: An epoch has no such number.
        """
        name = self.called(validates=validates)
        prefixes = ("train_", "val_") if validates else ("train_",)
        if names is None and name.startswith(prefixes):
            return
        known = [f"{prefix}{measured}" for prefix in prefixes for measured in ("loss", *(names or ()))]
        if name not in known:
            also = "" if validates else " There is no validation data."
            if names is None:
                also += f" The names of other metrics begin with {' or '.join(prefixes)}."
            raise self._unmeasured(name, known, also)

    @staticmethod
    def _unmeasured(name: str, known: Collection[str], also: str = "") -> TrainingError:
        return TrainingError(
            f"monitor is {shown(name)}, which is not measured: an epoch has {', '.join(known)}.{near(name, known)}{also}"
        )


def as_goal(monitor: Any, min_delta: Any) -> Goal:
    """Return the goal that ``"val_loss"``, ``("val_accuracy", "max")`` or None means.

    Raises:
        TrainingError: It is something else, or does not say whether more is better.
    """
    if isinstance(min_delta, bool) or not isinstance(min_delta, (int, float)) or not 0 <= min_delta < float("inf"):
        raise TrainingError(f"min_delta must be a number, at least 0, not {shown(min_delta)}.")
    match monitor:
        case None:
            return Goal(min_delta=min_delta)
        case (str() as name, "min" | "max" as better):
            return Goal(name, better == "max", min_delta)
        case str() as name if "loss" in name:
            return Goal(name, min_delta=min_delta)
        case str() as name:
            raise TrainingError(
                f'Say whether more of {shown(name)} is better: monitor=({shown(name)}, "max"), or less: "min".'
            )
        case _:
            raise TrainingError(f'monitor must be a name such as ("val_accuracy", "max"), not {shown(monitor)}.')
