"""`Config`: the arguments of an engine, as one value that a checkpoint can hold; if no loss is given, the data chooses it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, Final

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.errors import PnneError, TargetError, TrainingError, expect, near, shown
from pnne_nb.runtime.data.batches import Batch, InputShapes, as_batch
from pnne_nb.runtime.data.open_data import Data, open_source, require_count
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, DeviceRoom, StreamSource, TensorSource
from pnne_nb.runtime.objective import losses
from pnne_nb.runtime.objective.losses import Loss, has_state_of_its_own, make_loss, require_trained
from pnne_nb.runtime.objective.metric_choices import MetricChoice, make_metrics, names_of
from pnne_nb.runtime.objective.metrics import Stateful
from pnne_nb.runtime.objective.objective import MonitorChoice, as_goal
from pnne_nb.runtime.objective.step_logs import StepFunction
from pnne_nb.runtime.optim.optimizers import OptimizerChoice, is_all_moved, make_optimizer, needs_closure
from pnne_nb.runtime.optim.resolve import Options
from pnne_nb.runtime.optim.schedules import SchedulerChoice, make_schedule
from pnne_nb.runtime.setup.devices import measured, settle
from pnne_nb.runtime.setup.models import trial_output
from pnne_nb.runtime.setup.precision import Precision, choose_device
from pnne_nb.runtime.setup.recipe import EveryChoice, Recipe, as_every

DATA_SHARE = 0.25
"""Part of the free memory of an accelerator that data in memory may take, training and validation data each."""

UNDRAWN = (
    "epochs", "device", "precision", "grad_clip", "accumulate", "seed", "checkpoint_dir", "early_stopping",
    "validate_every", "checkpoint_every", "max_to_keep", "deterministic", "monitor", "min_delta", "restore_best_weights",
)  # fmt: skip
"""Arguments that no node of a training graph stands for."""


def require_undrawn(options: Iterable[str]) -> None:
    """Raise an error for arguments that nodes of a training graph already give.

    Raises:
        TrainingError: One of them is drawn, or unknown.
    """
    for name in options:
        if name not in UNDRAWN:
            raise TrainingError(
                f"from_graph takes no argument {name!r}: it is drawn, or unknown.{near(name, UNDRAWN)} "
                f"It takes {', '.join(UNDRAWN)}."
            )


class Config(msgspec.Struct, frozen=True):
    """The arguments of a `TrainingEngine` but for model and data; see there."""

    loss: Loss
    optimizer: OptimizerChoice
    scheduler: SchedulerChoice
    metrics: Sequence[MetricChoice]
    epochs: int
    batch_size: int
    shuffle: bool
    device: str
    precision: str
    grad_clip: float | None
    accumulate: int
    seed: int
    num_workers: int
    parameter_groups: Mapping[str, Options] | None
    step_function: StepFunction | None
    early_stopping: int | None
    validate_every: EveryChoice = 1
    checkpoint_every: EveryChoice = 1
    deterministic: bool = False
    stateful: Mapping[str, Stateful] | None = None
    monitor: MonitorChoice = None
    min_delta: float = 0.0
    restore_best_weights: bool = False
    max_to_keep: int | None = 3
    target: str | None = None

    def __post_init__(self) -> None:
        # NumPy's numbers count as Python's, and a checkpoint can keep those.
        for name, value in msgspec.structs.asdict(self).items():
            if isinstance(value, np.generic):
                msgspec.structs.force_setattr(self, name, value.item())

    def check(self) -> None:
        """Raise an error for invalid numbers, before any work is done.

        Raises:
            TrainingError: One of them; the message names it.
        """
        for name in ("epochs", "batch_size", "accumulate"):
            require_count(name, getattr(self, name))
        workers: object = self.num_workers
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
            raise TrainingError(f"num_workers must be a whole number, at least 0, not {shown(workers)}.")
        for name in ("early_stopping", "max_to_keep"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))
        if self.step_function is not None and not callable(self.step_function):
            raise TrainingError(
                "step_function must be a function of model and batch that returns the loss, not "
                f"{shown(self.step_function)}."
            )
        expect(self.stateful, (Mapping, NoneType), "stateful", 'objects by name, such as {"d_optimizer": optimizer}')
        for name, kept in (self.stateful or {}).items():
            if not isinstance(kept, Stateful):
                raise TrainingError(
                    f"stateful[{name!r}] is a {type(kept).__name__}, which has no state_dict and load_state_dict."
                )
        expect(self.target, (str, NoneType), "target", "the name of a column of a table", 'Write target="label".')
        as_goal(self.monitor, self.min_delta)
        as_every("validate_every", self.validate_every)
        as_every("checkpoint_every", self.checkpoint_every)
        for name in ("shuffle", "deterministic", "restore_best_weights"):
            if not isinstance(getattr(self, name), bool):
                raise TrainingError(f"{name} must be True or False, not {shown(getattr(self, name))}.")
        seed: object = self.seed
        if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**64:
            raise TrainingError(f"seed must be a whole number of at most 64 bits, not {shown(seed)}.")
        clip: object = self.grad_clip
        if clip is not None and not (isinstance(clip, (int, float)) and clip > 0):
            raise TrainingError(f"grad_clip must be a positive norm or None, not {shown(clip)}.")

    def open_data(self, train: Data | None, val: Data | None) -> tuple[BatchSource, BatchSource | None]:
        """Return the data as batches; only training data is shuffled.

        Raises:
            TrainingError: See `open_source`.
        """
        return (
            self._open(train, "train_data", shuffle=self.shuffle),
            None if val is None else self._open(val, "val_data", shuffle=False),
        )

    def _open(self, data: Data | None, name: str, *, shuffle: bool) -> BatchSource:
        device = choose_device(self.device)
        is_accelerator = device.type not in ("cpu", "meta")
        return open_source(
            data,
            name,
            batch_size=self.batch_size,
            shuffle=shuffle,
            seed=self.seed,
            num_workers=self.num_workers,
            pin_memory=device.type == "cuda",
            room=DeviceRoom(device, int(DATA_SHARE * measured(device).free)) if is_accelerator else None,
        )

    def plain(self) -> dict[str, Any]:
        """Return the arguments that are plain values, without functions and objects."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if is_plain(value)}

    def objects(self) -> dict[str, Any]:
        """Return the arguments that `plain` leaves out."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if not is_plain(value)}

    def recipe(
        self,
        model: nn.Module,
        train: BatchSource,
        val: BatchSource | None,
        expected: InputShapes,
        placed: Collection[str] = (),
    ) -> Recipe:
        """Make the recipe of a loop from the arguments.

        Args:
            model: Moved to the device in place.
            train: Training data.
            val: Validation data.
            expected: Name and shape of each Input node; empty for a plain module.
            placed: Paths of layers that have a device of their own.

        Raises:
            TrainingError: An argument cannot be; the message says which and why.
        """
        device = choose_device(self.device)
        scattered = settle(model, device, placed)
        optimizer = make_optimizer(self.optimizer, model, self.parameter_groups)
        loss, stateful = make_loss(self.loss), dict(self.stateful or {})
        if isinstance(loss, nn.Module):
            require_trained(loss.to(device), optimizer)
            if has_state_of_its_own(loss):
                stateful["loss"] = loss
        if needs_closure(optimizer) and self.precision == "16":
            raise TrainingError(
                f"{type(optimizer).__name__} computes the loss several times in a step, which scaled gradients do not "
                'allow: choose precision "32" or "bf16".'
            )
        if self.precision == "16" and any(one.dtype == torch.float16 for one in model.parameters()):
            raise TrainingError(
                'With precision="16" the parameters stay float32, and the forward pass runs in float16 by itself: give the '
                "model as it was before half()."
            )
        goal = as_goal(self.monitor, self.min_delta)
        metrics = make_metrics(self.metrics, device)
        # What a model or a step function tells beside the loss, only a step tells.
        compares = loss is not None and self.step_function is None
        goal.require_measured(names_of(metrics) if compares else None, validates=val is not None)
        total = None if train.size is None else self.epochs * -(-train.size // self.accumulate)
        return Recipe(
            model=model,
            train=train,
            val=val,
            loss=loss,
            optimizer=optimizer,
            schedule=make_schedule(self.scheduler, optimizer, total_steps=total, more=goal.more),
            metrics=metrics,
            val_metrics=make_metrics(self.metrics, device),
            expected=expected,
            device=device,
            precision=Precision(self.precision, device),
            grad_clip=self.grad_clip,
            accumulate=self.accumulate,
            step=self.step_function,
            goal=goal,
            patience=self.early_stopping,
            restore_best_weights=self.restore_best_weights,
            validate_every=as_every("validate_every", self.validate_every),
            moves_all=is_all_moved(self.optimizer),
            needs_closure=needs_closure(optimizer),
            scattered=scattered,
            stateful=stateful,
        )


def is_plain(value: Any) -> bool:
    """Return whether a file can hold an argument: strings and numbers, alone or in collections."""
    match value:
        case None | bool() | int() | float() | str():
            return True
        case list() | tuple():
            return all(is_plain(item) for item in value)
        case dict():
            return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
        case _:
            return False


EXAMPLES: Final = 64
"""Examples of a dataset that are read to see whether all targets are 0 or 1."""


def choose_loss(config: Config, model: nn.Module, data: BatchSource) -> tuple[Config, losses.LossChoice]:
    """Choose the loss if none was given, by the data and the model's output for one example; the model does not change.

    Returns:
        What is asked for, with a loss; and the name of that, with the reason if it was chosen.

    Raises:
        TargetError: No loss fits the target and the output.
        TrainingError: The data is a stream, whose targets cannot be looked at before the training.
    """
    if config.step_function is not None:
        loss = None if config.loss == losses.BY_TARGET else config.loss
        return msgspec.structs.replace(config, loss=loss), losses.LossChoice("of the step function")
    if config.loss != losses.BY_TARGET:
        config = _balanced(config, model, data)
        return config, losses.LossChoice(losses.loss_name(config.loss), over=_over(config, model, data))
    batch = _first(data, 1, model)
    if batch is None:
        raise TrainingError(
            "No loss can be chosen, because the data is a stream, which is read only once. Give the loss: "
            'loss="CrossEntropyLoss" for classes, "MSELoss" for quantities, "BCEWithLogitsLoss" for yes and no.'
        )
    output = _output(model, batch, config.seed)
    choice = losses.loss_for(output, _targets(data, batch, output, model))
    if choice.name == "BCEWithLogitsLoss" and isinstance(list(model.modules())[-1], nn.Sigmoid):
        raise TargetError(
            "The model ends in Sigmoid, which BCEWithLogitsLoss computes itself: remove the Sigmoid, or give "
            'loss="BCELoss", with metrics=() or metrics that take probabilities.'
        )
    loss = losses.make_loss(choice.name)
    losses.require_classes(loss, losses.scores_for_loss(loss, output, batch.target))
    choice = msgspec.structs.replace(choice, over=_place(loss, output, batch.target))
    return msgspec.structs.replace(config, loss=choice.name), choice


def _balanced(config: Config, model: nn.Module, data: BatchSource) -> Config:
    """Return what is asked for with numbers for the weights ``"balanced"``, examples ÷ (classes × examples of the class).

    A class without examples has the weight 1.

    Raises:
        TrainingError: The weights are another text, or the targets are no classes in memory.
    """
    match config.loss:
        case (name, {"weight": str(weight), **options}):
            pass
        case _:
            return config
    if weight != "balanced":
        raise TrainingError(f'weight cannot be {shown(weight)}. Write "balanced", or a number for each class.')
    target = data.tensors[-1] if isinstance(data, TensorSource) and len(data.tensors) > 1 else None
    if target is None or target.is_floating_point() or target.dim() != 1 or int(target.min()) < 0:
        raise TrainingError(
            'The weights "balanced" are counted from whole numbers of classes in memory, as in train_data=(X, y). Give a number '
            'for each class instead: loss=("CrossEntropyLoss", {"weight": [1.0, 2.0]}).'
        )
    batch = _first(data, 1, model)
    output = None if batch is None else _output(model, batch, config.seed)
    outputs = output.shape[1] if isinstance(output, Tensor) and output.dim() > 1 else 0
    counts = target.long().bincount(minlength=outputs)
    weights = (len(target) / (int((counts > 0).sum()) * counts.clamp(min=1).double())).where(counts > 0, 1.0)
    return msgspec.structs.replace(config, loss=(name, {**options, "weight": weights.tolist()}))


def _over(config: Config, model: nn.Module, data: BatchSource) -> str:
    """Return where a given loss finds the scores of classes; the model runs only where each example has several targets."""
    if not isinstance(data, TensorSource) or len(data.tensors) < 2 or data.tensors[-1].dim() < 2 or config.loss is None:
        return ""
    batch = _first(data, 1, model)
    if batch is None or not isinstance(batch.target, Tensor) or batch.target.is_floating_point():
        return ""
    return _place(losses.make_loss(config.loss), _output(model, batch, config.seed), batch.target)


def _place(loss: Any, output: Any, target: Any) -> str:
    moved = losses.scores_for_loss(loss, output, target)
    return "" if moved is output else f"the last dimension of the output, {moved.shape[1]} classes"


def _first(data: BatchSource, count: int, model: nn.Module) -> Batch | None:
    if not isinstance(data, (TensorSource, DatasetSource, StreamSource)):
        return None
    raw = data.first(count)
    return None if raw is None else as_batch(raw, wants_target=True, model=model)


def _targets(data: BatchSource, first: Batch, output: Any, model: nn.Module) -> Any:
    """Return the targets for the choice: all in memory; of a dataset, more than the first only if that may help."""
    if isinstance(data, TensorSource):
        return data.tensors[-1]
    one = isinstance(output, Tensor) and output.numel() == 1
    if not isinstance(first.target, Tensor) or not (one or first.target.is_floating_point()):
        return first.target
    more = _first(data, EXAMPLES, model)
    return first.target if more is None else more.target


def _output(model: nn.Module, batch: Batch, seed: int) -> Any:
    """Return the model's output for one example; None if it fails, which the first step will explain."""
    try:
        return trial_output(model, batch, seed)
    except (PnneError, RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError, AssertionError):
        return None
