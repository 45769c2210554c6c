"""The training loop: a plain generator without threads, queues or clocks of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, final

import msgspec
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from pnne_nb.errors import CheckpointError, Diagnostic, TrainingError
from pnne_nb.frames import AnomalyFrame, EpochFrame, StepFrame
from pnne_nb.runtime import blame
from pnne_nb.runtime.data import Batch, InputShapes, Source, TensorSource, as_batch, expect_shapes, to_device
from pnne_nb.runtime.easing import pieces
from pnne_nb.runtime.metrics import Metric, load_metric, saved_metric
from pnne_nb.runtime.objectives import Schedule
from pnne_nb.runtime.observers import Observers
from pnne_nb.runtime.precision import Precision
from pnne_nb.runtime.randomness import PrivateRandomness
from pnne_nb.runtime.snapshot import Snapshot


class Stepped(msgspec.Struct, frozen=True):
    """One optimizer step was made."""

    frame: StepFrame


class Validated(msgspec.Struct, frozen=True):
    """One batch of the validation data was looked at."""

    batch: int


class EpochEnded(msgspec.Struct, frozen=True):
    """An epoch is complete, its validation included."""

    frame: EpochFrame


class Eased(msgspec.Struct, frozen=True):
    """Memory was too small for a batch: from this step on, batches are cut into pieces."""

    frame: AnomalyFrame


Event: TypeAlias = Stepped | Validated | EpochEnded | Eased


class NotFiniteError(TrainingError):
    """The loss or a gradient is NaN or infinite; the model is as it was before the step."""


class Recipe(msgspec.Struct, frozen=True):
    """What a loop works with.

    Attributes:
        loss: Function of output and target; None if the model returns its own loss.
        metrics: Over the training data, by name.
        val_metrics: The same over the validation data.
        expected: Name and shape of each Input node, to be compared with the data; empty for a plain module.
        accumulate: Batches whose gradients make up one optimizer step.
        grad_clip: Largest gradient norm, or None.
        step: Replaces forward pass and loss: a function of model and raw batch that returns the loss.
        patience: End after so many epochs without a lower validation (or else training) loss, or None.
    """

    model: nn.Module
    train: Source
    val: Source | None
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
    step: Callable[[nn.Module, Any], Tensor] | None = None
    patience: int | None = None


@final
class TrainingLoop:
    """A training that can be left and entered again between any two batches.

    Attributes:
        steps: Optimizer steps done.
        epoch: The epoch under way, from 1.
        position: Batches of that epoch already used.
        seconds: Time spent working.
        doing: What is going on, for messages: ``"fetching batch 3 of epoch 1"``.
    """

    def __init__(self, recipe: Recipe, randomness: PrivateRandomness, observers: Observers) -> None:
        self.recipe = recipe
        self.randomness = randomness
        self.observers = observers
        self.steps = 0
        self.epoch = 1
        self.position = 0
        self.seconds = 0.0
        self.doing = "starting"
        self._loss_sum = 0.0
        self._examples = 0
        self._best = math.inf
        self._epochs_since_best = 0
        self._epoch_randomness = randomness.state_dict()
        self._validation_randomness: dict[str, Any] | None = None
        self._modes: list[tuple[nn.Module, bool]] = []
        self._snapshot = Snapshot(())
        self._shapes_seen: set[tuple[Any, ...]] = set()
        self._pieces = 1
        self._updating = False
        self._eased: list[AnomalyFrame] = []

    def check_data(self) -> None:
        """Compare data in memory with the graph's Input nodes before anything is done.

        Raises:
            TrainingError: It does not fit; other data is compared when it comes.
        """
        for source in (self.recipe.train, self.recipe.val):
            if isinstance(source, TensorSource):
                self._prepare(source.first())

    @property
    def fetching(self) -> bool:
        """Whether the data is at work, not the model."""
        return self.doing.startswith("fetching")

    def adopt(self, recipe: Recipe) -> None:
        """Go on by another recipe from the next step; on an error, by the old one.

        Raises:
            TrainingError: Data in memory does not fit what the new one expects.
        """
        before, self.recipe = self.recipe, recipe
        seen, self._shapes_seen = self._shapes_seen, set()
        try:
            self.check_data()
        except TrainingError:
            self.recipe, self._shapes_seen = before, seen
            raise

    def model_changed(self) -> None:
        """The model has other layers now."""
        self._set_mode(training=self.recipe.model.training)

    def run(self, last_epoch: int) -> Generator[Event, None, None]:
        """Train to the end of `last_epoch`, one event a batch or less.

        Whoever iterates decides between two events whether and when to go on. Closing the generator
        leaves the loop ready to run again from where it is.

        Raises:
            NotFiniteError: The loss is NaN or infinite; the model is as before the step.
            TrainingError: The data does not fit the model, or there is none.
        """
        try:
            while self.epoch <= last_epoch and not self._has_settled():
                yield from self._train_epoch()
                metrics = self._train_metrics()
                if self.recipe.val is not None:
                    yield from self._validate(self.recipe.val, metrics)
                yield self._end_epoch(metrics)
        finally:
            self.recipe.train.close()
            if self.recipe.val is not None:
                self.recipe.val.close()

    # Training

    def _train_epoch(self) -> Iterator[Event]:
        batches = self._open_epoch()
        self._set_mode(training=True)
        while True:
            began = time.perf_counter()
            with self.randomness:
                self.doing = f"fetching batch {self.position + 1} of epoch {self.epoch}"
                group = list(islice(batches, self.recipe.accumulate))
                if not group:
                    break
                self.doing = f"training on batch {self.position + 1} of epoch {self.epoch}"
                self._restore_modes()
                loss, examples, rate = self._step_or_less(group)
            self.steps += 1
            self.position += len(group)
            self._examples += examples
            self._loss_sum += loss * examples
            self.seconds += time.perf_counter() - began
            while self._eased:
                yield Eased(self._eased.pop())
            yield Stepped(StepFrame(self.steps, self.epoch, loss, rate, examples, self.seconds))
        if self.position == 0:
            raise TrainingError("The training data gave no batch at all.")

    def _open_epoch(self) -> Iterator[Any]:
        self.doing = f"opening the data of epoch {self.epoch}"
        now = self.randomness.state_dict()
        if self.position == 0:
            self._epoch_randomness = now
        # A loader that draws its order from the global generator draws the same one again.
        self.randomness.load_state_dict(self._epoch_randomness)
        with self.randomness:
            batches = self.recipe.train.batches(self.epoch, self.position)
        if self.position > 0:
            self.randomness.load_state_dict(now)
        return batches

    def _step_or_less(self, group: Sequence[Any]) -> tuple[float, int, float]:
        """A step; where memory is too small for it, the same one from smaller pieces of the batches.

        Raises:
            torch.OutOfMemoryError: Memory is too small even for one example, or for the optimizer.
        """
        while True:
            cut = group if self._pieces == 1 else self._cut(group)
            try:
                return self._step_or_nothing(cut)
            except torch.OutOfMemoryError:
                largest = max(as_batch(raw, wants_target=self._compares()).examples for raw in cut)
                if self._updating or largest < 2:
                    raise
            # Outside of the block: the exception holds on to the tensors that were too many.
            self._ease(largest)

    def _cut(self, group: Sequence[Any]) -> list[Any]:
        wants_target = self._compares()
        sizes = [as_batch(raw, wants_target=wants_target).examples for raw in group]
        return [piece for raw, size in zip(group, sizes, strict=True) for piece in pieces(raw, self._pieces, size)]

    def _ease(self, largest: int) -> None:
        self._pieces *= 2
        self.recipe.optimizer.zero_grad(set_to_none=True)
        if self.recipe.device.type != "cpu":
            torch.accelerator.empty_cache()
        message = (
            f"Out of memory at step {self.steps + 1} with {largest} examples at once: from here on, each batch is "
            f"cut into {self._pieces} pieces whose gradients are added up, so that a step means the same."
        )
        hint = "Batch norm sees the pieces one by one. A smaller batch_size, or bf16, saves memory as well."
        self._eased.append(AnomalyFrame(step=self.steps + 1, kind="out-of-memory", message=message, hint=hint))

    def _step_or_nothing(self, group: Sequence[Any]) -> tuple[float, int, float]:
        """A step that raises leaves buffers and random state as before: it can be made again, or inspected."""
        self._snapshot.take()
        try:
            return self._step(group)
        except BaseException:
            self._snapshot.restore()
            self.randomness.rewind()
            raise

    def _step(self, group: Sequence[Any]) -> tuple[float, int, float]:
        recipe, optimizer, precision = self.recipe, self.recipe.optimizer, self.recipe.precision
        self._updating = False
        batches = [self._prepare(raw) for raw in group]
        examples = sum(batch.examples for batch in batches)
        rate = float(optimizer.param_groups[0]["lr"])
        value = 0.0
        outputs = []
        with self.observers.watching(self.steps + 1) as watched:
            optimizer.zero_grad(set_to_none=True)
            for raw, batch in zip(group, batches, strict=True):
                share = batch.examples / examples if examples else 1 / len(batches)
                output, loss = self._forward(raw, batch)
                value += loss.item() * share
                if not math.isfinite(value):
                    raise self._not_finite(f"The loss became {value}", "nan-loss", batch)
                precision.backward(loss if len(batches) == 1 else loss * share)
                outputs.append(output.detach() if isinstance(output, Tensor) else output)
            precision.unscale(optimizer)
            if watched is not None:
                watched.gradients_ready()
            self._check_gradients()
            self._updating = True
            precision.step(optimizer)
            if watched is not None:
                watched.updated()
        for output, batch in zip(outputs, batches, strict=True):
            self._count(recipe.metrics, output, batch)
        if recipe.schedule is not None and recipe.schedule.every == "step":
            self._advance(recipe.schedule, value)
        return value, examples, rate

    def _check_gradients(self) -> None:
        recipe = self.recipe
        parameters = [parameter for group in recipe.optimizer.param_groups for parameter in group["params"]]
        first = next((parameter.grad for parameter in parameters if parameter.grad is not None), None)
        if first is None:
            raise TrainingError(
                "No parameter got a gradient: the loss does not depend on the model's parameters. Is part of "
                "the forward pass under torch.no_grad() or detached?"
            )
        # Backpropagation reaches the first parameters last: what is not finite anywhere on the way arrives there.
        norm = first.sum() if recipe.grad_clip is None else _total_norm(parameters)
        if recipe.precision.scaler is None and not math.isfinite(norm.item()):
            raise self._not_finite("A gradient became NaN or infinite", "nan-gradient", None)
        if recipe.grad_clip is not None:
            nn.utils.clip_grads_with_norm_(parameters, recipe.grad_clip, norm)

    def _not_finite(self, what: str, kind: str, batch: Batch | None) -> NotFiniteError:
        recipe = self.recipe
        if batch is None:
            node = blame.gradient_not_finite(recipe.model)
        else:
            node = blame.output_not_finite(recipe.model, batch.inputs, batch.named)
        rate = recipe.optimizer.param_groups[0]["lr"]
        where = "" if node is None else f", first at node {node!r}"
        hint = "Try a smaller learning rate or grad_clip=1.0, and look for NaN in the data."
        message = f"{what} at step {self.steps + 1} (epoch {self.epoch}, learning rate {float(rate):g}){where}."
        return NotFiniteError(
            f"{message} The model is as it was before that step. {hint}",
            [Diagnostic(code=kind, message=message, node=node, hint=hint)],
        )

    def _prepare(self, raw: Any) -> Batch:
        recipe = self.recipe
        batch = as_batch(raw, wants_target=self._compares())
        if recipe.expected:
            shapes = tuple(value.shape if isinstance(value, Tensor) else None for value in batch.inputs)
            if batch.named or shapes not in self._shapes_seen:
                expect_shapes(batch, recipe.expected)
                self._shapes_seen.add(shapes)
        if recipe.device.type == "cpu":
            return batch
        return Batch(
            to_device(batch.inputs, recipe.device),
            to_device(batch.named, recipe.device),
            to_device(batch.target, recipe.device),
            batch.examples,
        )

    def _forward(self, raw: Any, batch: Batch) -> tuple[Any, Tensor]:
        recipe = self.recipe
        with recipe.precision.autocast():
            if recipe.step is not None:
                return None, _scalar(recipe.step(recipe.model, to_device(raw, recipe.device)), "The step function")
            output = recipe.model(*batch.inputs, **batch.named)
            if recipe.loss is None:
                return None, _scalar(output, "Without a loss, the model must return its own: it")
            return output, _scalar(recipe.loss(output, batch.target), "The loss function")

    def _compares(self) -> bool:
        """Whether there is an output to compare with a target, for the loss and for metrics."""
        return self.recipe.loss is not None and self.recipe.step is None

    def _count(self, metrics: dict[str, Metric], output: Any, batch: Batch) -> None:
        if self._compares():
            with torch.no_grad():
                for metric in metrics.values():
                    metric.update(output, batch.target)

    # Validation and the end of an epoch

    def _validate(self, source: Source, metrics: dict[str, float]) -> Iterator[Validated]:
        """Begins anew after an interruption, with the random numbers that it began with."""
        recipe = self.recipe
        if self._validation_randomness is not None:
            self.randomness.load_state_dict(self._validation_randomness)
        self._validation_randomness = self.randomness.state_dict()
        for metric in recipe.val_metrics.values():
            metric.reset()
        total, seen, index = 0.0, 0, 0
        with self.randomness:
            batches = source.batches(1)
        self._set_mode(training=False)
        try:
            while True:
                began = time.perf_counter()
                self.doing = f"validating batch {index + 1} of epoch {self.epoch}"
                with self.randomness, torch.no_grad():
                    raw = next(batches, None)
                    if raw is None:
                        break
                    self._restore_modes()
                    batch = self._prepare(raw)
                    output, loss = self._forward(raw, batch)
                    total += loss.item() * batch.examples
                    self._count(recipe.val_metrics, output, batch)
                seen += batch.examples
                index += 1
                self.seconds += time.perf_counter() - began
                yield Validated(index)
        finally:
            self._set_mode(training=True)
        self._validation_randomness = None
        metrics["val_loss"] = total / seen if seen else math.nan
        if self._compares():
            metrics.update({f"val_{name}": float(metric.compute()) for name, metric in recipe.val_metrics.items()})

    def validate(self) -> Generator[Validated, None, EpochEnded]:
        """An extra validation in the middle of an epoch, one event a batch; the training is as before it.

        Raises:
            TrainingError: There is no validation data, or the training itself is validating.
        """
        if self.recipe.val is None:
            raise TrainingError("There is no validation data: give val_data to the engine.")
        if self._validation_randomness is not None:
            raise TrainingError("The training is validating already, at the end of an epoch: step() past it first.")
        metrics: dict[str, float] = {}
        before = self.randomness.state_dict()
        try:
            yield from self._validate(self.recipe.val, metrics)
        finally:
            self.randomness.load_state_dict(before)
            self._validation_randomness = None
        return EpochEnded(EpochFrame(epoch=self.epoch, step=self.steps, metrics=metrics))

    def _train_metrics(self) -> dict[str, float]:
        metrics = {"train_loss": self._loss_sum / self._examples if self._examples else math.nan}
        if self._compares():
            metrics.update({f"train_{name}": float(metric.compute()) for name, metric in self.recipe.metrics.items()})
        return metrics

    def _end_epoch(self, metrics: dict[str, float]) -> EpochEnded:
        schedule = self.recipe.schedule
        loss = metrics.get("val_loss", metrics["train_loss"])
        if schedule is not None and schedule.every == "epoch":
            self._advance(schedule, loss)
        self._epochs_since_best = 0 if loss < self._best else self._epochs_since_best + 1
        self._best = min(self._best, loss)
        frame = EpochFrame(epoch=self.epoch, step=self.steps, metrics=metrics)
        self.epoch += 1
        self.position = 0
        self._loss_sum, self._examples = 0.0, 0
        for metric in self.recipe.metrics.values():
            metric.reset()
        return EpochEnded(frame)

    def _has_settled(self) -> bool:
        return self.recipe.patience is not None and self._epochs_since_best >= self.recipe.patience

    @staticmethod
    def _advance(schedule: Schedule, loss: float) -> None:
        match schedule.scheduler:
            case ReduceLROnPlateau() as plateau:
                plateau.step(loss)
            case scheduler:
                scheduler.step()

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on, between two events, in plain types and tensors."""
        recipe = self.recipe
        scaler = recipe.precision.scaler
        return {
            "model": recipe.model.state_dict(),
            "optimizer": recipe.optimizer.state_dict(),
            "scheduler": None if recipe.schedule is None else recipe.schedule.scheduler.state_dict(),
            "scaler": None if scaler is None else scaler.state_dict(),
            "metrics": {name: saved_metric(metric) for name, metric in recipe.metrics.items()},
            "randomness": self._validation_randomness or self.randomness.state_dict(),
            "epoch_randomness": self._epoch_randomness,
            "place": {name: getattr(self, name) for name in _PLACE},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned.

        Raises:
            CheckpointError: It belongs to another model, optimizer or scheduler.
        """
        recipe = self.recipe
        scaler = recipe.precision.scaler
        try:
            recipe.model.load_state_dict(state["model"])
            recipe.optimizer.load_state_dict(state["optimizer"])
            if recipe.schedule is not None and state["scheduler"] is not None:
                recipe.schedule.scheduler.load_state_dict(state["scheduler"])
            if scaler is not None and state["scaler"] is not None:
                scaler.load_state_dict(state["scaler"])
            for name, metric in recipe.metrics.items():
                load_metric(metric, state["metrics"].get(name))
            self.randomness.load_state_dict(state["randomness"])
            self._epoch_randomness = state["epoch_randomness"]
            for name in _PLACE:
                setattr(self, name, state["place"][name])
        except (KeyError, RuntimeError, ValueError, TypeError) as error:
            raise CheckpointError(f"The checkpoint does not fit this training: {error}") from error

    # Train and eval mode

    def _set_mode(self, *, training: bool) -> None:
        self.recipe.model.train(training)
        self._modes = [(module, module.training) for module in self.recipe.model.modules()]
        self._snapshot = Snapshot(self.recipe.model.buffers())

    def _restore_modes(self) -> None:
        """Undo what a cell's ``model.eval()`` did since the last batch."""
        for module, training in self._modes:
            if module.training is not training:
                module.training = training


_PLACE = ("steps", "epoch", "position", "seconds", "_loss_sum", "_examples", "_best", "_epochs_since_best")


def _total_norm(parameters: Sequence[Tensor]) -> Tensor:
    return nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])


def _scalar(loss: Any, who: str) -> Tensor:
    if not isinstance(loss, Tensor):
        raise TrainingError(f"{who} returned a {type(loss).__name__}, not a tensor with the loss.")
    if loss.dim() == 0:
        return loss
    if loss.numel() != 1:
        raise TrainingError(f'{who} returned shape {tuple(loss.shape)}, not one number: use reduction="mean".')
    return loss.reshape(())
