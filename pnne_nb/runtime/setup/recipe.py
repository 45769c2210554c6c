"""`Recipe`: the prepared parts of a training, which `config` makes and `loop` uses; `Every`: an interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import InputShapes
from pnne_nb.runtime.data.open_data import require_count
from pnne_nb.runtime.data.sources import BatchSource, TensorSource
from pnne_nb.runtime.objective.metrics import Metric, Stateful
from pnne_nb.runtime.objective.objective import Goal
from pnne_nb.runtime.objective.step_logs import ALONE, Peers, StepFunction
from pnne_nb.runtime.optim.schedules import Schedule
from pnne_nb.runtime.setup.precision import Precision
from pnne_nb.runtime.thread.boundary import Beside

Unit: TypeAlias = Literal["epochs", "steps"]
EveryChoice: TypeAlias = "int | tuple[int, Unit] | None"


class Every(msgspec.Struct, frozen=True):
    """Every `count` epochs or steps; never if `count` is 0."""

    count: int
    unit: Unit

    def after_step(self, step: int) -> bool:
        return self.unit == "steps" and self.count > 0 and step % self.count == 0

    def after_epoch(self, epoch: int) -> bool:
        return self.unit == "epochs" and self.count > 0 and epoch % self.count == 0


def as_every(name: str, choice: Any) -> Every:
    """Return the interval that ``3``, ``(3, "epochs")``, ``(500, "steps")`` or None (never) means.

    Raises:
        TrainingError: It is something else; the message calls it `name`.
    """
    match choice:
        case None:
            return Every(0, "epochs")
        case (count, "epochs" | "steps" as unit):
            require_count(name, count)
            return Every(count, unit)
        case tuple() | list():
            raise TrainingError(f'{name} must be a number of epochs, or a pair such as (500, "steps"), not {choice!r}.')
        case count:
            require_count(name, count)
            return Every(count, "epochs")


class Recipe(msgspec.Struct, frozen=True):
    """The prepared parts of a training.

    Attributes:
        loss: Function of output and target; None if the model returns its own loss.
        metrics: Over the training data, by name.
        val_metrics: The same over the validation data.
        expected: Name and shape of each Input node, to be compared with the data; empty for a plain module.
        accumulate: Batches whose gradients make up one optimizer step.
        grad_clip: Largest gradient norm, or None.
        step: Replaces forward pass and loss: a function of model and raw batch, see `step_logs`.
        goal: What is to become better.
        patience: End after so many epochs in which it has not, or None.
        restore_best_weights: Whether the best weights are kept, and put back when the training is over.
        validate_every: When the validation data is looked at; at the end of the last epoch in any case.
        moves_all: Whether the optimizer was made for all trainable parameters, not for chosen ones.
        needs_closure: Whether the optimizer computes the loss several times in a step, as LBFGS does.
        scattered: Whether the model is on several devices; batches go to, and outputs come back to `device`.
        peers: The processes that make each step together.
        stateful: What else changes in the course of training, and belongs in a checkpoint, by name.
        trained: What runs in training in the place of `model`: the same, with gradients averaged over all peers.
    """

    model: nn.Module
    train: BatchSource
    val: BatchSource | None
    loss: Callable[[Any, Any], Tensor] | None
    optimizer: torch.optim.Optimizer
    schedule: Schedule | None
    metrics: dict[str, Metric]
    val_metrics: dict[str, Metric]
    expected: InputShapes
    device: torch.device
    precision: Precision
    grad_clip: float | None
    accumulate: int
    step: StepFunction | None = None
    goal: Goal = Goal()
    patience: int | None = None
    restore_best_weights: bool = False
    validate_every: Every = Every(1, "epochs")
    moves_all: bool = False
    needs_closure: bool = False
    scattered: bool = False
    stateful: Mapping[str, Stateful] = {}
    peers: Peers = ALONE
    trained: Callable[..., Any] | None = None

    @property
    def compares(self) -> bool:
        """Whether there is an output to compare with a target, for the loss and for metrics."""
        return self.loss is not None and self.step is None

    @property
    def called(self) -> nn.Module | None:
        """The model, where it is called with the inputs of a batch; None where a step function decides."""
        return self.model if self.step is None else None

    @property
    def beside(self) -> Iterator[Beside]:
        """The tensors of the training beside the model's: of the optimizer and, where it is in memory, of the data."""
        names: dict[Tensor, str] = {weight: name for name, weight in self.model.named_parameters()}
        for weight, state in tuple(self.optimizer.state.items()):
            for value in tuple(state.values()):
                if isinstance(value, Tensor):
                    yield Beside(f"the optimizer's state of {names.get(weight, 'a parameter')}", value, False)
        for kind, source in (("training", self.train), ("validation", self.val)):
            if isinstance(source, TensorSource):
                for number, tensor in enumerate(source.tensors):
                    yield Beside(f"tensor {number} of the {kind} data", tensor, True)

    @property
    def in_parts(self) -> bool:
        """Whether each process has only a part of every tensor, so that none can run the model alone."""
        return self.peers.count > 1 and self.trained is None


def require_validation(recipe: Recipe) -> BatchSource:
    """Return the validation data.

    Raises:
        TrainingError: There is none.
    """
    if recipe.val is None:
        raise TrainingError("There is no validation data: give val_data to the engine.")
    return recipe.val
