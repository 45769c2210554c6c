"""Metrics over an epoch: sums on the device while it runs, one number at its end."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, final, runtime_checkable

import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError, near, shown

if TYPE_CHECKING:
    # It takes two seconds, and most trainings do without.
    import torchmetrics


@runtime_checkable
class Metric(Protocol):
    """What ``torchmetrics.Metric`` offers, as far as training needs it."""

    def update(self, output: Any, target: Any) -> None:
        """Take one batch into account."""

    def compute(self) -> Any:
        """The value over all batches since the last reset; None if the metric says nothing about such data."""

    def reset(self) -> None:
        """Forget every batch."""


@runtime_checkable
class Saved(Protocol):
    """A metric that can continue in the middle of an epoch."""

    def state_dict(self) -> dict[str, Any]:
        """What it has counted."""

    def load_state_dict(self, state: Mapping[str, Any]) -> Any:
        """Continue from there."""


PerBatch: TypeAlias = Callable[[Any, Any], Tensor]
MetricChoice: TypeAlias = (
    "str | tuple[str, Mapping[str, Any]] | tuple[str, Metric] | tuple[str, PerBatch] | Metric | PerBatch"
)


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """Share of right predictions.

    With class numbers as `target`, `output` holds scores with the classes in dimension 1
    (``[b, c]``, ``[b, c, h, w]`` …), or in the last if that is where the shapes agree. Otherwise both have
    the same shape: scores against probabilities of classes if there are several columns, else logits of
    yes (above 0) against no.
    """
    return _hits(output, target).mean(dtype=torch.float32)


def _hits(output: Tensor, target: Tensor) -> Tensor:
    # By far the most frequent form; `len` of a tensor is Python, and takes as long as all the rest of this line.
    rows = output.dim() == 2 and target.dim() == 1 and not target.is_floating_point()
    if rows and output.shape[0] == target.shape[0]:
        return output.argmax(1) == target
    if output.shape != target.shape and not target.is_floating_point():
        classes = 1 if output.dim() > 1 and output.shape[:1] + output.shape[2:] == target.shape else -1
        chosen = output.argmax(classes)
        if chosen.shape != target.shape:
            raise TrainingError(
                f"accuracy cannot compare an output of shape {tuple(output.shape)} with a target of shape "
                f"{tuple(target.shape)}: it needs one score for each class, or equal shapes."
            )
        return chosen == target
    if output.shape == target.shape and output.dim() > 1 and output.shape[1] > 1:
        return output.argmax(1) == target.argmax(1)
    return (output.reshape(-1) > 0) == (target.reshape(-1) > 0.5)


def mean_absolute_error(output: Tensor, target: Tensor) -> Tensor:
    """Mean of the absolute differences."""
    return (output - target).abs().mean()


def mean_squared_error(output: Tensor, target: Tensor) -> Tensor:
    """Mean of the squared differences."""
    return (output - target).square().mean()


PER_BATCH: dict[str, PerBatch] = {"accuracy": accuracy, "mae": mean_absolute_error, "mse": mean_squared_error}


@final
class Averaged:
    """The mean over examples of a function of a batch, summed on the device without waiting for it."""

    def __init__(self, function: PerBatch) -> None:
        self._function = function
        self._sum: Tensor | float = 0.0
        self._examples = 0

    def update(self, output: Any, target: Any) -> None:
        """Take one batch into account."""
        examples = len(output) if isinstance(output, Tensor) and output.dim() > 0 else 1
        self._sum = self._sum + self._function(output, target) * examples
        self._examples += examples

    def compute(self) -> float:
        """The mean over all examples since the last reset; NaN without any."""
        return float(self._sum) / self._examples if self._examples else float("nan")

    def reset(self) -> None:
        """Forget every batch."""
        self._sum, self._examples = 0.0, 0

    def state_dict(self) -> dict[str, Any]:
        """The sums so far."""
        return {"sum": self._sum, "examples": self._examples}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._sum, self._examples = state["sum"], state["examples"]


def saved_metric(metric: Metric) -> dict[str, Any] | None:
    """What `metric` has counted in this epoch, or None if it cannot tell."""
    return metric.state_dict() if isinstance(metric, Saved) else None


def load_metric(metric: Metric, state: dict[str, Any] | None) -> None:
    """Let `metric` continue from what `saved_metric` gave."""
    if state is not None and isinstance(metric, Saved):
        metric.load_state_dict(state)
        if isinstance(metric, nn.Module):
            # torchmetrics takes the tensors over as they come: from a file, on the CPU.
            metric.to(cast("torchmetrics.Metric", metric).device)


@final
class Accuracy:
    """The share of right predictions, see `accuracy`: counted on the device without waiting for it.

    Of targets that are measurements, not classes, and of outputs that are no tensor, it says nothing; the first batch
    decides.
    """

    def __init__(self) -> None:
        self._hits: Tensor | int = 0
        self._seen = 0
        self._measurements = 0

    def update(self, output: Any, target: Any) -> None:
        """Take one batch into account."""
        if not self._seen and not (isinstance(output, Tensor) and _are_classes(target)):
            self._measurements = 1
        if not self._measurements:
            hits = _hits(output, target)
            self._hits = hits.sum() + self._hits
            self._seen += hits.numel()

    def compute(self) -> float | None:
        """The share over all predictions since the last reset; NaN without any, None of measurements."""
        if self._measurements:
            return None
        return float(self._hits) / self._seen if self._seen else float("nan")

    def reset(self) -> None:
        """Forget every batch."""
        self._hits, self._seen, self._measurements = 0, 0, 0

    def state_dict(self) -> dict[str, Any]:
        """The counts so far."""
        return {"hits": int(self._hits), "seen": self._seen, "measurements": self._measurements}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._hits, self._seen, self._measurements = state["hits"], state["seen"], state["measurements"]


def _are_classes(target: Any) -> bool:
    """Whether a target holds numbers of classes, yes and no, or probabilities of classes; not measurements."""
    if not isinstance(target, Tensor):
        return False
    if not target.is_floating_point():
        return True
    if bool(((target == 0) | (target == 1)).all()):
        return True
    several = target.dim() > 1 and target.shape[1] > 1
    return several and bool((target >= 0).all()) and bool(((target.sum(1) - 1).abs() < 1e-3).all())


def target_for(metric: Metric, target: Any) -> Any:
    """The target as `metric` takes it.

    The yes and no that losses such as ``BCEWithLogitsLoss`` want as floats, torchmetrics' classification wants whole.
    """
    floats = isinstance(target, Tensor) and target.is_floating_point()
    if not floats or not type(metric).__module__.startswith("torchmetrics.classification."):
        return target
    whole = target.long()
    return whole if torch.equal(whole.to(target.dtype), target) else target


def results(metrics: Mapping[str, Metric], prefix: str) -> dict[str, float]:
    """What `metrics` say, by name: ``"train_accuracy"`` …; one that says several things by name has its own names.

    Raises:
        TrainingError: One says something else than numbers, or two say something by one name.
    """
    found: dict[str, float] = {}
    for name, metric in metrics.items():
        for said, number in _numbers(name, metric.compute()).items():
            if f"{prefix}_{said}" in found:
                raise TrainingError(f"Two metrics say what {said} is; the history has room for one.")
            found[f"{prefix}_{said}"] = number
    return found


def _numbers(name: str, value: Any) -> dict[str, float]:
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {said: number for key, part in value.items() for said, number in _numbers(str(key), part).items()}
    try:
        return {name: float(value)}
    except (TypeError, ValueError, RuntimeError) as error:
        given = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise TrainingError(
            f"The metric {name} gives {given}, and the history keeps numbers of each metric for an epoch. Choose one, as "
            'average="macro" does for many metrics; for one of each class, give torchmetrics\' ClasswiseWrapper of it; or '
            f"compute {name} from predictions afterwards."
        ) from error


def make_metrics(choices: Sequence[MetricChoice], device: torch.device) -> dict[str, Metric]:
    """Metrics by the name they have in the history.

    Args:
        choices: Names (``"accuracy"``, ``"mae"``, ``"mse"``), pairs of a torchmetrics class and its arguments
            (``("F1Score", {"task": "multiclass", "num_classes": 10})``), torchmetrics' metrics (alone, or with the
            name that they shall have), or functions of output and target that return the mean over the batch (likewise).
        device: Where they count.

    Raises:
        TrainingError: Unknown name, wrong arguments, something that is no metric, that an output and a target are not
            enough for, or that says something else than numbers; or one name twice.
    """
    if isinstance(choices, str):
        raise TrainingError(f"metrics must be a sequence: write metrics=({shown(choices)},).")
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


def _require_comparing(name: str, metric: Metric) -> None:
    """Insist on a metric that an output and a target are enough for.

    Raises:
        TrainingError: Its ``update`` takes more, or less.
    """
    try:
        signature = inspect.signature(metric.update)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        kind, taken = type(metric).__name__, ", ".join(signature.parameters)
        raise TrainingError(
            f"The metric {name} counts {taken}, but a training has an output and a target to give. Derive a metric that "
            f"finds the rest in them: class Mine({kind}) with def update(self, output, target): super().update(...), and "
            "targets that hold it, by name say."
        ) from error


def _require_numbers(name: str, metric: Metric) -> None:
    """Insist on numbers before there is an epoch to lose, where a metric of torchmetrics says something of no data."""
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
    _numbers(name, said)


def _singles(choice: Any) -> list[MetricChoice]:
    """The metrics of a collection (torchmetrics' is a ``ModuleDict``), each by its own name; anything else alone."""
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
        case str() if choice == "accuracy":
            return choice, Accuracy()
        case str() if choice in PER_BATCH:
            return choice, Averaged(PER_BATCH[choice])
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
    # Imported late on purpose: it takes two seconds, and most trainings do without.
    import torchmetrics  # noqa: PLC0415

    known = [*PER_BATCH, *sorted(entry for entry in torchmetrics.__all__ if entry[0].isupper())]
    if name not in known or name in PER_BATCH:
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
