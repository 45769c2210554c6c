"""Metrics over an epoch: sums on the device during the epoch, one number at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Number
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, final, runtime_checkable

import torch
from torch import Tensor, nn

from pnne_nb.errors import PnneError, TrainingError, shown

if TYPE_CHECKING:
    # It takes two seconds, and most trainings do without.
    import torchmetrics


@runtime_checkable
class Metric(Protocol):
    """The part of ``torchmetrics.Metric`` that a training needs."""

    def update(self, output: Any, target: Any) -> None:
        """Take one batch into account.

        Shape:
            - output: `[N, ...]`, N examples, or collections of such tensors.
            - target: `[N, ...]`, likewise.
        """

    def compute(self) -> Any:
        """Return the value over all batches since the last reset; None if the metric says nothing about such data."""

    def reset(self) -> None:
        """Forget every batch."""


@runtime_checkable
class Stateful(Protocol):
    """A metric that can continue in the middle of an epoch."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state so far."""

    def load_state_dict(self, state: Mapping[str, Any]) -> Any:
        """Restore the result of `state_dict`."""


PerBatch: TypeAlias = Callable[[Any, Any], Tensor]


def _hits(output: Tensor, target: Tensor) -> Tensor:
    """Return which predictions are right as booleans `[N, ...]`; see `Accuracy` for the shapes of the arguments."""
    # By far the most frequent form; `len` of a tensor is Python, and takes as long as all the rest of this line.
    rows = output.dim() == 2 and target.dim() == 1 and not target.is_floating_point()
    if rows and output.shape[0] == target.shape[0] and output.shape[1] > 1:
        return output.argmax(1) == target
    chosen, wanted = _compared(output, target)
    return chosen == wanted


def chosen_classes(output: Any, target: Any) -> tuple[Tensor, Tensor] | None:
    """Return the classes that `output` chooses and those that `target` says, of equal shape, as `Accuracy` reads them.

    None if the target holds quantities, or one of them is no tensor.

    Raises:
        TrainingError: Their shapes do not fit.
    """
    return _compared(output, target) if _are_comparable(output, target) else None


def _are_comparable(output: Any, target: Any) -> bool:
    """Return whether the target has classes; for a model with one output, integers beyond 0 and 1 are quantities."""
    if not isinstance(output, Tensor) or not are_classes(target):
        return False
    if target.is_floating_point() or not _has_one_output(output, target):
        return True
    return bool(((target == 0) | (target == 1)).all())


def _has_one_output(output: Tensor, target: Tensor) -> bool:
    return output.numel() == target.numel() and (output.dim() < 2 or output.shape[1] == 1)


def _compared(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if output.shape != target.shape and not target.is_floating_point() and not _has_one_output(output, target):
        return output.argmax(_class_dimension(output, target)), target
    if output.shape == target.shape and output.dim() > 1 and output.shape[1] > 1:
        return output.argmax(1), target.argmax(1)
    return output.reshape(-1) > 0, target.reshape(-1) > 0.5


def _class_dimension(output: Tensor, target: Tensor) -> int:
    dim = 1 if output.dim() > 1 and output.shape[:1] + output.shape[2:] == target.shape else -1
    if dim == -1 and output.shape[:-1] != target.shape:
        raise TrainingError(
            f"accuracy cannot compare an output of shape {tuple(output.shape)} with a target of shape "
            f"{tuple(target.shape)}: it needs one score for each class, or equal shapes."
        )
    return dim


def mean_absolute_error(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean of the absolute differences.

    Shape:
        - output: `[N, ...]`.
        - target: `[N, ...]`, the same shape.
        - Returns: `[]`.
    """
    return (output - target).abs().mean()


def mean_squared_error(output: Tensor, target: Tensor) -> Tensor:
    """Return the mean of the squared differences.

    Shape:
        - output: `[N, ...]`.
        - target: `[N, ...]`, the same shape.
        - Returns: `[]`.
    """
    return (output - target).square().mean()


@final
class Averaged:
    """The mean over examples of a function of a batch, summed on the device without waiting for it.

    The function takes output and target, `[N, ...]` each, and returns their mean `[]`.
    """

    def __init__(self, function: PerBatch) -> None:
        self._function = function
        self._sum: Tensor | float = 0.0
        self._examples = 0

    def update(self, output: Any, target: Any) -> None:
        """Take one batch into account: output and target `[N, ...]`, N examples; an output `[]` is one."""
        examples = len(output) if isinstance(output, Tensor) and output.dim() > 0 else 1
        found: Any = self._function(output, target)
        if not (found.numel() == 1 if isinstance(found, Tensor) else isinstance(found, Number)):
            what = f"a tensor of shape {tuple(found.shape)}" if isinstance(found, Tensor) else shown(found)
            name = getattr(self._function, "__name__", "")
            raise TrainingError(
                f"The metric's function {name} returned {what}, not one number: return the mean over the batch, such as "
                "(output.argmax(1) == target).float().mean()."
            )
        self._sum = self._sum + found * examples
        self._examples += examples

    def compute(self) -> float:
        """Return the mean over all examples since the last reset; NaN without any."""
        return float(self._sum) / self._examples if self._examples else float("nan")

    def reset(self) -> None:
        self._sum, self._examples = 0.0, 0

    def state_dict(self) -> dict[str, Any]:
        return {"sum": self._sum, "examples": self._examples}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._sum, self._examples = state["sum"], state["examples"]


def saved_metric(metric: Metric) -> dict[str, Any] | None:
    """Return the state of `metric` in this epoch, or None if it has no `state_dict`."""
    return metric.state_dict() if isinstance(metric, Stateful) else None


def load_metric(metric: Metric, state: dict[str, Any] | None) -> None:
    """Restore `metric` from the result of `saved_metric`."""
    if state is not None and isinstance(metric, Stateful):
        metric.load_state_dict(state)
        if isinstance(metric, nn.Module):
            # torchmetrics takes the tensors over as they come: from a file, on the CPU.
            metric.to(cast("torchmetrics.Metric", metric).device)


@final
class Accuracy:
    """The share of right predictions, counted on the device without waiting for it.

    Of targets that are measurements, not classes, and of outputs that are no tensor, it says nothing; the first batch
    decides.

    Shape:
        - target: `[N]` or `[N, ...]`, numbers of classes; or as output, probabilities of C > 1 classes, or yes (1) and no (0).
        - output: `[N, C, ...]`, scores of C > 1 classes, or `[N, ..., C]` if that is where the shapes agree; with yes and
          no, logits of the target's shape or `[N, 1, ...]`, above 0 for yes.
    """

    def __init__(self) -> None:
        self._hits: Tensor | int = 0
        self._seen = 0
        self._measurements = 0

    @property
    def applies(self) -> bool:
        """Whether the targets are classes, as far as any were seen."""
        return not self._measurements

    def update(self, output: Any, target: Any) -> None:
        """Take one batch into account.

        Raises:
            TrainingError: The shapes do not go together.
        """
        if not self._seen and not _are_comparable(output, target):
            self._measurements = 1
        if not self._measurements:
            hits = _hits(output, target)
            self._hits = hits.sum() + self._hits
            self._seen += hits.numel()

    def compute(self) -> float | None:
        """Return the share over all predictions since the last reset; NaN without any, None of measurements."""
        if self._measurements:
            return None
        return float(self._hits) / self._seen if self._seen else float("nan")

    def reset(self) -> None:
        self._hits, self._seen, self._measurements = 0, 0, 0

    def state_dict(self) -> dict[str, Any]:
        return {"hits": int(self._hits), "seen": self._seen, "measurements": self._measurements}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._hits, self._seen, self._measurements = state["hits"], state["seen"], state["measurements"]


def are_classes(target: Any) -> bool:
    """Return whether a target `[N, ...]` has class indices, booleans or class probabilities, not measurements."""
    if not isinstance(target, Tensor):
        return False
    if not target.is_floating_point():
        return True
    if bool(((target == 0) | (target == 1)).all()):
        return True
    several = target.dim() > 1 and target.shape[1] > 1
    return several and bool((target >= 0).all()) and bool(((target.sum(1) - 1).abs() < 1e-3).all())


def target_for(metric: Metric, target: Any) -> Any:
    """Return the target in the form that `metric` takes.

    The yes and no that losses such as ``BCEWithLogitsLoss`` want as floats, torchmetrics' classification wants whole.
    """
    floats = isinstance(target, Tensor) and target.is_floating_point()
    if not floats or not type(metric).__module__.startswith("torchmetrics.classification."):
        return target
    whole = target.long()
    return whole if torch.equal(whole.to(target.dtype), target) else target


def results(metrics: Mapping[str, Metric], prefix: str) -> dict[str, float]:
    """Return what `metrics` say, by name: ``"train_accuracy"`` …; one that says several things has its own names.

    Raises:
        TrainingError: One says something else than numbers, or two say something by one name.
    """
    found: dict[str, float] = {}
    for name, metric in metrics.items():
        with _named(name, "computing its value"):
            value = metric.compute()
        for said, number in numbers_of(name, value).items():
            if f"{prefix}_{said}" in found:
                raise TrainingError(f"Two metrics give {said}; the history keeps one value of each name.")
            found[f"{prefix}_{said}"] = number
    return found


def reset(metrics: Mapping[str, Metric]) -> None:
    """Reset `metrics`."""
    for name, metric in metrics.items():
        with _named(name, "forgetting the epoch before"):
            metric.reset()


@contextmanager
def _named(name: str, doing: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not isinstance(error, PnneError):
            error.add_note(f"In the metric {name!r}, {doing}.")
        raise


def numbers_of(name: str, value: Any) -> dict[str, float]:
    """Return the values of the metric `name` as numbers, by name.

    Raises:
        TrainingError: It says something else than numbers.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {said: number for key, part in value.items() for said, number in numbers_of(str(key), part).items()}
    try:
        return {name: float(value)}
    except (TypeError, ValueError, RuntimeError) as error:
        given = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise TrainingError(
            f"The metric {name} gives {given}, and the history keeps numbers of each metric for an epoch. Choose one, as "
            'average="macro" does for many metrics; for one of each class, give torchmetrics\' ClasswiseWrapper of it; or '
            f"compute {name} from predictions afterwards."
        ) from error
