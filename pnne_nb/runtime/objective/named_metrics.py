"""The named metrics of engines and Metric nodes; the first batch determines what they compare."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor

from pnne_nb.catalog.training_nodes import METRICS
from pnne_nb.errors import TrainingError
from pnne_nb.runtime.objective.metrics import (
    Accuracy,
    Averaged,
    Metric,
    PerBatch,
    load_metric,
    mean_absolute_error,
    mean_squared_error,
    saved_metric,
    target_for,
)

PER_BATCH: dict[str, PerBatch] = {"mae": mean_absolute_error, "mse": mean_squared_error}
"""Those that are a mean over examples."""

_CLASSES = {"precision": "Precision", "recall": "Recall", "f1": "F1Score", "auroc": "AUROC"}
"""Those for classification, by the name that torchmetrics has for them."""

NAMES: dict[str, str] = dict(METRICS)
"""What each is called here, by all names that it has: its own, and that of torchmetrics."""


@final
class NamedMetric:
    """Compares the inputs of a Metric node, or output and target.

    Args:
        choice: One of `NAMES`.
        label: What it is called in messages: the node's name.
        pick: From the model's output and the batch's targets to (prediction, target); None takes both as they are.

    Attributes:
        counting: What counts; the first batch decides.
    """

    def __init__(self, choice: str, label: str, pick: Callable[[Any, Any], tuple[Any, ...]] | None = None) -> None:
        self._choice = NAMES[choice]
        self._label = label
        self._pick = pick
        self.counting: Metric | None = None
        self._saved: Mapping[str, Any] | None = None

    def update(self, output: Any, target: Any) -> None:
        """Take one batch into account.

        Raises:
            TrainingError: The metric refuses it; the message names the node.
        """
        predicted, expected = (output, target) if self._pick is None else self._pick(output, target)
        if self.counting is None:
            self.counting = _counting(self._choice, predicted, expected)
            if self._saved is not None:
                load_metric(self.counting, dict(self._saved))
        try:
            self.counting.update(predicted, target_for(self.counting, expected))
        except (ValueError, RuntimeError) as error:
            shapes = " and ".join(str(tuple(value.shape)) for value in (predicted, expected))
            raise TrainingError(
                f"{self._label}: {self._choice} cannot compare an output and a target of shapes {shapes}: {error}"
            ) from error

    def compute(self) -> float | None:
        """Return the value over all batches since the last reset; NaN without any, None if the metric says nothing."""
        value = math.nan if self.counting is None else self.counting.compute()
        return None if value is None else float(value)

    def reset(self) -> None:
        self._saved = None
        if self.counting is not None:
            self.counting.reset()

    def state_dict(self) -> dict[str, Any]:
        return dict(self._saved or {}) if self.counting is None else saved_metric(self.counting) or {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        if self.counting is not None:
            load_metric(self.counting, dict(state))
        else:
            self._saved = state or None


@final
class Perplexity:
    """``exp`` of the mean cross entropy of scores ``[..., classes]`` with class numbers."""

    def __init__(self) -> None:
        self._mean = Averaged(torch.nn.functional.cross_entropy)

    def update(self, output: Tensor, target: Tensor) -> None:
        """Take one batch into account: scores `[N, ..., C]` of C classes, and the right ones `[N, ...]`."""
        self._mean.update(output.reshape(-1, output.shape[-1]), target.reshape(-1))

    def compute(self) -> float:
        return math.exp(self._mean.compute())

    def reset(self) -> None:
        self._mean.reset()

    def state_dict(self) -> dict[str, Any]:
        return self._mean.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._mean.load_state_dict(state)


def _counting(choice: str, predicted: Tensor, expected: Tensor) -> Metric:
    """Return the metric for the choice; for classification, the first batch shows whether there are two classes or more."""
    if choice in PER_BATCH:
        return Averaged(PER_BATCH[choice])
    match choice:
        case "accuracy":
            return Accuracy()
        case "perplexity":
            return Perplexity()
    import torchmetrics  # noqa: PLC0415  # it takes two seconds to import, and most trainings do without

    if choice == "r2":
        made: Any = torchmetrics.R2Score()
    elif predicted.shape == expected.shape:
        made = getattr(torchmetrics, _CLASSES[choice])(task="binary")
    else:
        made = getattr(torchmetrics, _CLASSES[choice])(
            task="multiclass", num_classes=predicted.shape[1], average="macro"
        )
    made.persistent(True)
    moved: Metric = made.to(predicted.device)
    return moved
