"""Finds the metrics that the user asks for: names, as in torchmetrics, or functions."""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast, final

import torch
from torch import Tensor, nn

from pnne_nb.catalog.training_nodes import METRICS
from pnne_nb.errors import TrainingError, near, shown
from pnne_nb.runtime.objective.metrics import (
    Accuracy,
    Averaged,
    Metric,
    PerBatch,
    load_metric,
    mean_absolute_error,
    mean_squared_error,
    numbers_of,
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


MetricChoice: TypeAlias = (
    "str | tuple[str, Mapping[str, Any]] | tuple[str, Metric] | tuple[str, PerBatch] | Metric | PerBatch"
)


def make_metrics(choices: Sequence[MetricChoice], device: torch.device) -> dict[str, Metric]:
    """Metrics by the name they have in the history.

    Args:
        choices: Names (``"accuracy"``, ``"f1"``, ``"mae"`` … see `NAMES`), pairs of a torchmetrics class and its arguments
            (``("F1Score", {"task": "multiclass", "num_classes": 10})``), torchmetrics' metrics (alone, or with the
            name that they shall have), or functions of output and target that return the mean over the batch (likewise).
        device: Where they count.

    Raises:
        TrainingError: Unknown name, wrong arguments, something that is no metric, that an output and a target are not
            enough for, or that says something else than numbers; or one name twice.
    """
    if isinstance(choices, str):
        raise TrainingError(f"metrics must be a sequence: write metrics=({shown(choices)},).")
    choices = tuple(choices.items()) if isinstance(choices, Mapping) else choices
    if not isinstance(choices, (tuple, list)):
        raise TrainingError(f'metrics must be a tuple such as ("accuracy",), not {shown(choices)}. () is for none.')
    made: dict[str, Metric] = {}
    for name, metric in (_make(single, device) for choice in choices for single in _singles(choice)):
        if name in made:
            raise TrainingError(f"Two metrics are called {name!r}; the history has room for one.")
        _require_comparing(name, metric)
        _require_numbers(name, metric)
        made[name] = metric
    return made


def names_of(metrics: Mapping[str, Metric]) -> list[str] | None:
    """Return the names of the metrics' values without a prefix; None if only the values show them."""
    found: list[str] = []
    for name, metric in metrics.items():
        match metric:
            case Averaged() | NamedMetric():
                found.append(name)
            case Accuracy():
                found += [name] * metric.applies
            case _:
                return None
    return found


def _require_comparing(name: str, metric: Metric) -> None:
    """Raise an error if a metric's ``update`` takes more, or less, than an output and a target."""
    try:
        signature = inspect.signature(metric.update)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        kind, taken = type(metric).__name__, ", ".join(signature.parameters)
        raise TrainingError(
            f"The metric {name} counts {taken}, but a training passes it an output and a target. Derive a metric that "
            f"finds the rest in them: class Mine({kind}) with def update(self, output, target): super().update(...), and "
            "targets that hold it, by name say."
        ) from error


def _require_numbers(name: str, metric: Metric) -> None:
    """Raise an error before the first epoch if a metric of torchmetrics does not give numbers, as far as it can tell."""
    # In a group, it would ask the other processes; the engine that has launched it has asked the metric.
    in_a_group = torch.distributed.is_available() and torch.distributed.is_initialized()
    if in_a_group or not isinstance(metric, nn.Module) or getattr(metric, "update_called", True):
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            said = metric.compute()
        metric.reset()
    except Exception:  # noqa: BLE001  of no data, many say nothing
        return
    numbers_of(name, said)


def _singles(choice: Any) -> list[MetricChoice]:
    """Return the metrics of a collection (torchmetrics' ``ModuleDict``) by their own names; anything else alone."""
    match choice:
        case nn.ModuleDict():
            return [(name, cast("Metric", metric)) for name, metric in choice.items()]
        case (str() as prefix, nn.ModuleDict() as collection):
            return [(f"{prefix}_{name}", cast("Metric", metric)) for name, metric in collection.items()]
        case _:
            return [choice]


def _make(choice: MetricChoice, device: torch.device) -> tuple[str, Metric]:
    match choice:
        # Not by comparing: what torchmetrics makes of `metric == "accuracy"` is a metric, and true.
        case str() if NAMES.get(choice) == "accuracy":
            return choice, Accuracy()
        case str() if NAMES.get(choice) in PER_BATCH:
            return choice, Averaged(PER_BATCH[NAMES[choice]])
        case str() if choice in NAMES:
            return choice, NamedMetric(choice, f"The metric {choice}")
        case str():
            return choice, _from_torchmetrics(choice, {}, device)
        case (str() as name, Mapping() as options):
            return name, _from_torchmetrics(name, options, device)
        case (str() as name, Metric() as metric):
            return name, _own(metric, device)
        case (str() as name, function) if callable(function):
            return name, Averaged(function)
        case Metric():
            return type(choice).__name__, _own(choice, device)
        case _ if callable(choice):
            return getattr(choice, "__name__", type(choice).__name__), Averaged(choice)
        case _:
            raise TrainingError(f"{shown(choice)} is no metric: give a name, a torchmetrics metric, or a function.")


def _own(metric: Metric, device: torch.device) -> Metric:
    # Training and validation count apart.
    mine = copy.deepcopy(metric)
    return mine.to(device) if isinstance(mine, nn.Module) else mine


def _from_torchmetrics(name: str, options: Mapping[str, Any], device: torch.device) -> Metric:
    import torchmetrics  # noqa: PLC0415  # it takes two seconds to import, and most trainings do without

    classes = sorted(entry for entry in torchmetrics.__all__ if entry[0].isupper())
    known = [*dict.fromkeys(NAMES.values()), *classes]
    if name not in classes:
        short = name.casefold()
        meant = near(name, known) or near(
            next((long for long in known if long.casefold().startswith(short)), ""), known
        )
        raise TrainingError(f"There is no metric called {shown(name)}.{meant}")
    try:
        metric: Any = getattr(torchmetrics, name)(**options)
    except (TypeError, ValueError) as error:
        raise TrainingError(
            f"The metric {name} refuses its arguments {dict(options)!r}: {error} "
            f'Give them as in ("F1Score", {{"task": "multiclass", "num_classes": 10}}).'
        ) from error
    metric.persistent(True)
    moved: Metric = metric.to(device)
    return moved
