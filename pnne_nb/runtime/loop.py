"""The training loop: a plain generator without threads, queues or clocks of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias, final

import msgspec
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from pnne_nb.errors import TrainingError
from pnne_nb.frames import EpochFrame, StepFrame
from pnne_nb.runtime.data import Batch, Source, as_batch, expect_shapes, to_device
from pnne_nb.runtime.metrics import Metric
from pnne_nb.runtime.objectives import Schedule
from pnne_nb.runtime.observers import Observers
from pnne_nb.runtime.precision import Precision
from pnne_nb.runtime.randomness import PrivateRandomness


class Stepped(msgspec.Struct, frozen=True):
    """One optimizer step was made."""

    frame: StepFrame


class Validated(msgspec.Struct, frozen=True):
    """One batch of the validation data was looked at."""

    batch: int


class EpochEnded(msgspec.Struct, frozen=True):
    """An epoch is complete, its validation included."""

    frame: EpochFrame


Event: TypeAlias = Stepped | Validated | EpochEnded


class NotFiniteError(TrainingError):
    """The loss or a gradient is NaN or infinite; the model is as it was before the step."""

    def __init__(self, message: str, kind: str = "nan-loss") -> None:
        super().__init__(message)
        self.kind = kind


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
    """

    model: nn.Module
    train: Source
    val: Source | None
    loss: Callable[[Any, Any], Tensor] | None
    optimizer: torch.optim.Optimizer
    schedule: Schedule | None
    metrics: dict[str, Metric]
    val_metrics: dict[str, Metric]
    expected: tuple[tuple[str, tuple[int | str, ...]], ...]
    device: torch.device
    precision: Precision
    grad_clip: float | None
    accumulate: int
    step: Callable[[nn.Module, Any], Tensor] | None = None


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
        self.loss_sum = 0.0
        self.examples = 0
        self.epoch_randomness = randomness.state_dict()
        self._modes: list[tuple[nn.Module, bool]] = []
        self._shapes_seen: set[tuple[Any, ...]] = set()

    def run(self, last_epoch: int) -> Generator[Event, None, None]:
        """Train to the end of `last_epoch`, one event a batch or less.

        Whoever iterates decides between two events whether and when to go on. Closing the generator
        leaves the loop ready to run again from where it is.

        Raises:
            NotFiniteError: The loss is NaN or infinite; the model is as before the step.
            TrainingError: The data does not fit the model, or there is none.
        """
        try:
            while self.epoch <= last_epoch:
                yield from self._train_epoch()
                metrics = self._train_metrics()
                if self.recipe.val is not None:
                    yield from self._validate(metrics)
                yield self._end_epoch(metrics)
        finally:
            self.recipe.train.close()
            if self.recipe.val is not None:
                self.recipe.val.close()

    def validate(self) -> Iterator[Event]:
        """Look at the validation data now, between two steps; ends with an `EpochEnded`."""
        metrics: dict[str, float] = {}
        yield from self._validate(metrics)
        yield EpochEnded(EpochFrame(epoch=self.epoch, step=self.steps, metrics=metrics))

    # Training

    def _train_epoch(self) -> Iterator[Event]:
        recipe = self.recipe
        self.doing = f"opening the data of epoch {self.epoch}"
        with self.randomness:
            if self.position == 0:
                self.epoch_randomness = self.randomness.state_dict()
            batches = recipe.train.batches(self.epoch, self.position)
        self._set_mode(training=True)
        while True:
            began = time.perf_counter()
            with self.randomness:
                self.doing = f"fetching batch {self.position + 1} of epoch {self.epoch}"
                group = list(islice(batches, recipe.accumulate))
                if not group:
                    break
                self.doing = f"training on batch {self.position + 1} of epoch {self.epoch}"
                self._restore_modes()
                loss, examples, rate = self._step(group)
            self.steps += 1
            self.position += len(group)
            self.examples += examples
            self.loss_sum += loss * examples
            self.seconds += time.perf_counter() - began
            yield Stepped(StepFrame(self.steps, self.epoch, loss, rate, examples, self.seconds))
        if self.position == 0:
            raise TrainingError("The training data gave no batch at all.")

    def _step(self, group: Sequence[Any]) -> tuple[float, int, float]:
        recipe, optimizer, precision = self.recipe, self.recipe.optimizer, self.recipe.precision
        batches = [self._prepare(raw) for raw in group]
        examples = sum(batch.examples for batch in batches)
        rate = float(optimizer.param_groups[0]["lr"])
        with self.observers.watching(self.steps + 1) as watched:
            optimizer.zero_grad(set_to_none=True)
            value = 0.0
            for raw, batch in zip(group, batches, strict=True):
                share = batch.examples / examples if examples else 1 / len(batches)
                output, loss = self._forward(raw, batch)
                value += loss.item() * share
                if not math.isfinite(value):
                    raise NotFiniteError(
                        f"The loss became {value} at step {self.steps + 1} (epoch {self.epoch}, learning rate {rate:g}). "
                        f"The model is as it was before that step. Try a smaller learning rate, grad_clip=1.0, "
                        f"or look for NaN in the data."
                    )
                precision.backward(loss if len(batches) == 1 else loss * share)
                self._count(recipe.metrics, output, batch)
            precision.unscale(optimizer)
            if watched is not None:
                watched.gradients_ready()
            if recipe.grad_clip is not None:
                nn.utils.clip_grad_norm_(self._parameters(), recipe.grad_clip)
            precision.step(optimizer)
            if watched is not None:
                watched.updated()
        if recipe.schedule is not None and recipe.schedule.every == "step":
            self._advance(recipe.schedule, value)
        return value, examples, rate

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.recipe.optimizer.param_groups for parameter in group["params"]]

    def _prepare(self, raw: Any) -> Batch:
        recipe = self.recipe
        batch = as_batch(raw, wants_target=recipe.loss is not None and recipe.step is None)
        if recipe.expected:
            shapes = tuple(value.shape if isinstance(value, Tensor) else None for value in batch.inputs)
            if batch.named or shapes not in self._shapes_seen:
                expect_shapes(batch, recipe.expected)
                self._shapes_seen.add(shapes)
        return msgspec.structs.replace(
            batch,
            inputs=to_device(batch.inputs, recipe.device),
            named=to_device(batch.named, recipe.device),
            target=to_device(batch.target, recipe.device),
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

    @staticmethod
    def _count(metrics: dict[str, Metric], output: Any, batch: Batch) -> None:
        if output is not None:
            detached = output.detach() if isinstance(output, Tensor) else output
            for metric in metrics.values():
                metric.update(detached, batch.target)

    # Validation and the end of an epoch

    def _validate(self, metrics: dict[str, float]) -> Iterator[Event]:
        recipe = self.recipe
        assert recipe.val is not None
        for metric in recipe.val_metrics.values():
            metric.reset()
        total, seen, batches, index = 0.0, 0, iter(()), 0
        with self.randomness:
            batches = recipe.val.batches(1)
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
        metrics["val_loss"] = total / seen if seen else math.nan
        if self._counts():
            metrics.update({f"val_{name}": float(metric.compute()) for name, metric in recipe.val_metrics.items()})

    def _train_metrics(self) -> dict[str, float]:
        metrics = {"train_loss": self.loss_sum / self.examples if self.examples else math.nan}
        if self._counts():
            metrics.update({f"train_{name}": float(metric.compute()) for name, metric in self.recipe.metrics.items()})
        return metrics

    def _counts(self) -> bool:
        return self.recipe.loss is not None and self.recipe.step is None

    def _end_epoch(self, metrics: dict[str, float]) -> EpochEnded:
        schedule = self.recipe.schedule
        if schedule is not None and schedule.every == "epoch":
            self._advance(schedule, metrics.get("val_loss", metrics["train_loss"]))
        frame = EpochFrame(epoch=self.epoch, step=self.steps, metrics=metrics)
        self.epoch += 1
        self.position = 0
        self.loss_sum, self.examples = 0.0, 0
        for metric in self.recipe.metrics.values():
            metric.reset()
        return EpochEnded(frame)

    @staticmethod
    def _advance(schedule: Schedule, loss: float) -> None:
        if isinstance(schedule.scheduler, ReduceLROnPlateau):
            schedule.scheduler.step(loss)
        else:
            schedule.scheduler.step()

    # Train and eval mode

    def _set_mode(self, *, training: bool) -> None:
        self.recipe.model.train(training)
        self._modes = [(module, module.training) for module in self.recipe.model.modules()]

    def _restore_modes(self) -> None:
        """Undo what a cell's ``model.eval()`` did since the last batch."""
        for module, training in self._modes:
            if module.training is not training:
                module.training = training


def _scalar(loss: Any, who: str) -> Tensor:
    if not isinstance(loss, Tensor):
        raise TrainingError(f"{who} returned a {type(loss).__name__}, not a tensor with the loss.")
    if loss.numel() != 1:
        raise TrainingError(f'{who} returned shape {tuple(loss.shape)}, not one number: use reduction="mean".')
    return loss.reshape(())
