"""The training loop: a plain generator without threads, queues or clocks of its own."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import islice
from typing import Any, final

from pnne_nb.compiler.analysis.device_rule import devices_of
from pnne_nb.errors import CheckpointError, TrainingError
from pnne_nb.runtime.checkpointing.files import first_use_failed
from pnne_nb.runtime.data.sources import BatchSource, ReadAhead, workers_of
from pnne_nb.runtime.data.workers import DataCalls
from pnne_nb.runtime.faults.error_messages import in_a_sentence
from pnne_nb.runtime.loop.active_recipe import ActiveRecipe
from pnne_nb.runtime.loop.disturbances import Disturbances, HeldError, Modes
from pnne_nb.runtime.loop.fault_replay import StepPlace
from pnne_nb.runtime.loop.loop_events import Eased, EpochEnded, Event, Judged, Restored, Stepped, Validated, Waiting
from pnne_nb.runtime.loop.step import Stepper, StepResult
from pnne_nb.runtime.loop.validation import BestWeights, Validation
from pnne_nb.runtime.monitoring.probes import Observers
from pnne_nb.runtime.objective.metrics import load_metric, reset, results, saved_metric
from pnne_nb.runtime.objective.step_logs import ALONE, Means
from pnne_nb.runtime.setup.precision import Precision
from pnne_nb.runtime.setup.recipe import Recipe, require_validation
from pnne_nb.runtime.thread.determinism import Determinism
from pnne_nb.runtime.thread.rng import PrivateRandomness
from pnne_nb.runtime.thread.step_lock import StepLock
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, StepFrame

_NOTHING: AbstractContextManager[None] = nullcontext()


@final
class TrainingLoop:
    """A training that can be interrupted and continued between any two batches.

    Attributes:
        steps: Optimizer steps done.
        epoch: The epoch under way, from 1.
        position: Batches of that epoch already used.
        stages: Where the time goes.
        standing: What was best so far.
        data_calls: Its calls into the data.
        ring: The last steps, to go back to; it is off until it is given memory.
        turn: Its turn at a step.
        repeats: Whether a step made again gives the same bits.
    """

    # As an `Executor`: the steps are made here, between two looks of whoever takes the events.
    is_here = knows_model = counts = True
    is_group = measures = at_work = False
    waiting_for = None
    buttons = ""

    def __init__(
        self, recipe: Recipe, randomness: PrivateRandomness, observers: Observers, *, deterministic: bool = False
    ) -> None:
        self.steps = 0
        self.epoch = 1
        self.position = 0
        self._doing = "starting"
        self.data_calls = DataCalls()
        self.turn = StepLock()
        self._determinism = Determinism(recipe.device, wanted=deterministic)
        self.repeats = self._determinism.repeats
        self._randomness = randomness
        self._active = ActiveRecipe(recipe)
        self._modes = Modes()
        self._stepper = Stepper(self._active, self._modes, randomness, observers)
        self.stages = self._stepper.stages
        self.ring = self._stepper.ring
        self.stages.workers = workers_of(recipe.train)
        self._validation = Validation(self._active, self._modes, randomness, self.data_calls, self.turn)
        self._loss_sum = 0.0
        self._examples = 0
        self._logged = Means()
        self._compared = False
        self._untried = False
        self._judged_at = 0
        self.standing = BestWeights()
        self._epoch_randomness = randomness.state_dict()
        self._is_untouched = False  # the epoch is open, and no step of it was made
        self._after_opening: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, recipe: Recipe, seed: int, observers: Observers, *, deterministic: bool) -> TrainingLoop:
        """Return a loop with its own random state, seeded with `seed`."""
        numbers = PrivateRandomness(seed, recipe.device, more=devices_of(recipe.model))
        return cls(recipe, numbers, observers, deterministic=deterministic)

    @property
    def recipe(self) -> Recipe:
        return self._active.recipe

    @property
    def seconds(self) -> float:
        """Time spent working."""
        return sum(self.stages.seconds.values())

    @property
    def doing(self) -> str:
        """What is going on, for messages: ``"fetching batch 3 of epoch 1"``."""
        return self._doing.format(batch=self.position + 1, epoch=self.epoch)

    @property
    def fetching(self) -> bool:
        return self._doing.startswith("fetching")

    @property
    def disturbances(self) -> Disturbances:
        """What cells do to the modes of the model."""
        return self._stepper.disturbances

    def restore_modes(self) -> None:
        """Put the model into the mode that the training has it in; does nothing before the first step."""
        self._modes.restore()

    def check_data(self) -> None:
        """Compare data in memory with the graph's Input nodes before the first step; see `ActiveRecipe.check_data`."""
        self._active.check_data()

    def adopt(self, recipe: Recipe) -> None:
        """Use another recipe from the next step on; see `ActiveRecipe.adopt`."""
        self._active.adopt(recipe)
        self.ring.clear()

    def take_over(self, recipe: Recipe, state: Mapping[str, Any], *, is_edited: bool) -> None:
        """Continue with another recipe, from a state that another process changed.

        An epoch and a validation that are under way stay so. The random numbers are this loop's: in a validation, the
        state has those from before it.

        Args:
            recipe: With another model than the present one, and with the present sources.
            state: Of a loop of that recipe, see `state_dict`.
            is_edited: Whether it trains something else from here on; otherwise the steps before can be taken back.
        """
        training, untouched = self.recipe.model.training, self._is_untouched
        self._active.adopt(recipe)
        (self.ring.clear if is_edited else self.ring.touch)()
        recipe.model.train(training)
        self.model_changed()
        self.load_state_dict({**state, "randomness": self._randomness.state_dict()})
        self._is_untouched = untouched

    def model_changed(self) -> None:
        """RenameTrack the modes of the model's new layers."""
        self._modes.set(self.recipe.model, training=self.recipe.model.training)

    def halt(self) -> None:
        """Do nothing: whoever takes the events halts between two of them."""

    def sync(self) -> None:
        """Do nothing: the model is as after the last step."""

    def lend(self) -> AbstractContextManager[None]:
        """Do nothing: the next step is made with what the block leaves."""
        return _NOTHING

    def events(self, last_epoch: int) -> Generator[Event, None, None]:
        """Train to the end of `last_epoch`; yields at most one event per batch.

        The caller decides between two events whether and when to go on. Closing the generator leaves the loop ready to
        run again from where it is.

        Raises:
            NotFiniteError: The loss is NaN or infinite; the model is as before the step.
            TrainingError: The data does not fit the model, or there is none.
        """
        return self._determinism.over(self._run(last_epoch), self.turn)

    def _run(self, last_epoch: int) -> Generator[Event, None, None]:
        batches = self.recipe.train.size
        self._stepper.last = None if batches is None else last_epoch * -(-batches // self.recipe.accumulate)
        try:
            while self.epoch <= last_epoch and not self.has_settled():
                yield from self._train_epoch()
                metrics = self._train_metrics()
                last = self.epoch == last_epoch and self._judged_at < self.steps
                if self.recipe.val is not None and (last or self.recipe.validate_every.after_epoch(self.epoch)):
                    metrics |= yield from self._validate(self.recipe.val)
                yield self._end_epoch(metrics)
            if self.recipe.restore_best_weights and 0 <= self.standing.best_step != self.steps:
                yield Restored(self._restored())
        finally:
            self.recipe.train.close()
            if self.recipe.val is not None:
                self.recipe.val.close()

    def be_patient(self) -> None:
        """Reset the patience of early stopping if it is used up, so that the training continues."""
        if self.has_settled():
            self.standing.epochs_since_best = 0

    def has_settled(self) -> bool:
        """Return whether early stopping ends the training."""
        return self.recipe.patience is not None and self.standing.epochs_since_best >= self.recipe.patience

    def _restored(self) -> AnomalyFrame:
        recipe, standing = self.recipe, self.standing
        if not standing.restore(recipe.model, self.steps):
            message = (
                f"The model has the weights of the last epoch: those of epoch {standing.best_epoch}, the best, are from "
                "before restore_best_weights was asked for. best.ckpt may have them."
            )
            return AnomalyFrame(self.steps, "best-not-kept", message)
        goal = recipe.goal.called(validates=recipe.val is not None)
        best = -standing.best if recipe.goal.more else standing.best
        message = f"The model has the weights of epoch {standing.best_epoch} back: {goal} was best then, {best:g}."
        return AnomalyFrame(self.steps, "best-restored", message)

    # Training

    def _train_epoch(self) -> Iterator[Event]:
        batches, stages, stepper = self._open_epoch(), self.stages, self._stepper
        stepper.meanwhile = (lambda: batches.make(self.recipe.accumulate)) if isinstance(batches, ReadAhead) else None
        self._modes.set(self.recipe.model, training=True)
        group: list[Any] = []
        while True:
            # Several processes share their state, so that none of them can go back alone.
            if self.recipe.peers.count == 1 and not group:
                self.ring.offer(self.steps, self.state_dict)
            due = self._judged_at < self.steps and self.recipe.validate_every.after_step(self.steps)
            if due and self.recipe.val is not None:
                yield from self._judge(self.recipe.val)
            # Since the step before, it may have become another one.
            recipe = self.recipe
            self._doing = "waiting for a step of another training in this process"
            try:
                with self.turn, self._randomness:
                    stages.start()
                    self._doing = "fetching batch {batch} of epoch {epoch}"
                    if not group:
                        with self.data_calls:
                            group = list(islice(batches, recipe.accumulate))
                    if not group:
                        break
                    self._doing = "training on batch {batch} of epoch {epoch}"
                    self.disturbances.begin()
                    with self._goes_on(recipe):
                        step = stepper.make(group, StepPlace(self.steps + 1, self.epoch, self.position))
                        if recipe.schedule is not None:
                            recipe.schedule.advance("step", step.loss)
            except HeldError:
                self._doing = "between two steps"
                yield Waiting()
                continue
            self._doing = "between two steps"
            self.steps += 1
            self.ring.note(self.steps, step.loss)
            self.position += len(group)
            group = []
            self._is_untouched = False
            self._examples += step.examples
            self._loss_sum += step.loss * step.examples
            self._compared = step.compared
            if step.logged is not None:
                self._logged.add(step.logged, step.examples)
            stages.ended("other")
            while stepper.notices:
                yield Eased(stepper.notices.pop(0))
            yield Stepped(self._frame(step, recipe.precision))
        if self.position == 0:
            raise TrainingError("The training data gave no batch at all.")

    def skip(self, batches: int) -> None:
        self.position += batches
        self._is_untouched = False
        self.ring.touch()

    def _frame(self, step: StepResult, precision: Precision) -> StepFrame:
        return StepFrame(
            self.steps,
            self.epoch,
            step.loss,
            step.rate,
            step.examples,
            self.seconds,
            step.norm,
            None if precision.scaler is None else precision.scale,
            step.skipped,
            step.logged,
        )

    def _judge(self, source: BatchSource) -> Iterator[Event]:
        metrics = yield from self._validate(source)
        improved = self._improves(metrics)
        yield Judged(EpochFrame(self.epoch, self.steps, metrics), improved)

    def _improves(self, metrics: Mapping[str, float]) -> bool:
        """Record the goal's value, if it is among these numbers; return whether it improved."""
        recipe = self.recipe
        if "val_loss" in metrics:
            self._judged_at = self.steps
        cost = recipe.goal.cost(metrics, validates=recipe.val is not None)
        kept = recipe.model if recipe.restore_best_weights else None
        return self.standing.judge(cost, recipe.goal, self.epoch, self.steps, kept)

    def _open_epoch(self) -> Iterator[Any]:
        self._doing = "opening the data of epoch {epoch}"
        # One that was opened and left before its first step has drawn its order: it draws the same one again.
        now = self._epoch_randomness if self._is_untouched else self._randomness.state_dict()
        is_new = self.position == 0 and not self._is_untouched
        if is_new:
            self._epoch_randomness = now
        else:
            # A loader that draws its order from the global generator draws the same one again.
            self._randomness.load_state_dict(self._epoch_randomness)
        self._after_opening = now
        with self.turn, self._randomness, self.data_calls:
            batches = self.recipe.train.batches(self.epoch, self.position)
        if self.position > 0:
            self._randomness.load_state_dict(now)
        self._after_opening = None
        self._is_untouched = self.position == 0
        return batches

    # Validation and the end of an epoch

    def _validate(self, source: BatchSource) -> Generator[Validated | Eased, None, dict[str, float]]:
        batch = 0
        with closing(self._validation.run(source)) as validation:
            while True:
                self._doing = f"validating batch {batch + 1} of epoch {{epoch}}"
                self.stages.start()
                try:
                    validated = next(validation)
                except StopIteration as end:
                    yield from self._told_eased()
                    metrics: dict[str, float] = end.value
                    return metrics
                batch = validated.batch
                self.stages.ended("validation")
                yield from self._told_eased()
                yield validated

    def _told_eased(self) -> Iterator[Eased]:
        while self._validation.eased:
            largest, pieces = self._validation.eased.pop(0)
            message = (
                f"Out of memory in the validation after step {self.steps} with {largest} examples at once: from here on, "
                f"each of its batches is cut into {pieces} pieces, with the same result."
            )
            hint = "A smaller batch_size saves memory as well."
            yield Eased(AnomalyFrame(self.steps, "out-of-memory", message, hint=hint), validating=True)

    def validate(self) -> Generator[Validated | Eased, None, EpochFrame]:
        """Validate between two steps, with one event per batch, without changing the training.

        Raises:
            TrainingError: There is no validation data, or this is inside a validation.
        """
        return self._determinism.over(self._validate_once(), self.turn)

    def _validate_once(self) -> Generator[Validated | Eased, None, EpochFrame]:
        metrics = yield from self._validate(require_validation(self.recipe))
        return EpochFrame(epoch=self.epoch, step=self.steps, metrics=metrics)

    def _train_metrics(self) -> dict[str, float]:
        self._doing = "ending epoch {epoch}"
        metrics = {"train_loss": self._loss_sum / self._examples if self._examples else math.nan}
        metrics |= self._logged.compute(ALONE, "train_")
        if self._compared:
            with self.turn, self._randomness, self._goes_on(self.recipe):
                metrics |= results(self.recipe.metrics, "train")
        return metrics

    def _end_epoch(self, metrics: dict[str, float]) -> EpochEnded:
        self._doing = "ending epoch {epoch}"
        improved = self._improves(metrics)
        self.standing.end_epoch(self.epoch)
        if self.recipe.schedule is not None:
            goal = self.recipe.goal.called(validates=self.recipe.val is not None)
            with self.turn, self._randomness, self._goes_on(self.recipe):
                self.recipe.schedule.advance("epoch", metrics.get(goal))
        self._untried = False
        frame = EpochFrame(epoch=self.epoch, step=self.steps, metrics=metrics)
        self.epoch += 1
        self.position = 0
        self._loss_sum, self._examples, self._logged = 0.0, 0, Means()
        reset(self.recipe.metrics)
        return EpochEnded(frame, improved)

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state of the training between two events, in plain types and tensors."""
        recipe = self.recipe
        scaler = recipe.precision.scaler
        return {
            "model": recipe.model.state_dict(),
            "optimizer": recipe.optimizer.state_dict(),
            "scheduler": None if recipe.schedule is None else recipe.schedule.scheduler.state_dict(),
            "scaler": None if scaler is None else scaler.state_dict(),
            "stateful": {name: kept.state_dict() for name, kept in recipe.stateful.items()},
            "metrics": {name: saved_metric(metric) for name, metric in recipe.metrics.items()},
            "randomness": self._next_randomness(),
            "epoch_randomness": self._epoch_randomness,
            "pieces": self._stepper.memory.pieces,
            "seconds": dict(self.stages.seconds),
            "logged": dict(self._logged.sums),
            "standing": self.standing.state_dict(),
            "place": {name: getattr(self, name) for name in _PLACE},
        }

    def _next_randomness(self) -> Mapping[str, Any]:
        if self._is_untouched:
            return self._epoch_randomness  # to open the epoch draws the numbers since
        return self._after_opening or self._validation.began_with or self._randomness.state_dict()

    def _goes_on(self, recipe: Recipe) -> AbstractContextManager[None]:
        """Return a context manager that explains a failure of objects restored from a checkpoint at their first use."""
        return self._tried(recipe) if self._untried else _NOTHING

    @contextmanager
    def _tried(self, recipe: Recipe) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            schedulers = () if recipe.schedule is None else (recipe.schedule.scheduler,)
            fault = first_use_failed(error, recipe.optimizer, *schedulers, *recipe.metrics.values())
            if fault is None:
                raise
            raise fault from error

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`.

        Raises:
            CheckpointError: It belongs to another model, optimizer or scheduler.
        """
        recipe, standing = self.recipe, state["standing"]
        schedule = recipe.schedule
        try:
            recipe.model.load_state_dict(state["model"])
            recipe.optimizer.load_state_dict(state["optimizer"])
            if schedule is not None and state["scheduler"] is not None:
                schedule.scheduler.load_state_dict(state["scheduler"])
            if state["scaler"] is not None:
                recipe.precision.load_state_dict(state["scaler"])
            for name, kept in recipe.stateful.items():
                if name in state["stateful"]:
                    kept.load_state_dict(state["stateful"][name])
            for name, metric in recipe.metrics.items():
                load_metric(metric, state["metrics"].get(name))
            # It is needed when the epoch is opened, and refused now if it cannot be.
            self._randomness.load_state_dict(state["epoch_randomness"])
            self._randomness.load_state_dict(state["randomness"])
            if standing["weights"] is not None and standing["weights"].keys() != recipe.model.state_dict().keys():
                raise ValueError("the best weights are of another model")
        except Exception as error:  # foreign objects load what is theirs, and a file may hold anything
            raise CheckpointError(
                f"The checkpoint does not fit this training: {in_a_sentence(error)} Give resume_from the model and the "
                "arguments with which it was written."
            ) from error
        self._untried = True
        self._epoch_randomness = state["epoch_randomness"]
        self._is_untouched = False
        self._stepper.memory.pieces = state["pieces"]
        self.stages.seconds.update(state["seconds"])
        self._logged.sums = {name: list(pair) for name, pair in state["logged"].items()}
        self.standing.load_state_dict(standing)
        for name in _PLACE:
            setattr(self, name, state["place"][name])


_PLACE = ("steps", "epoch", "position", "_loss_sum", "_examples", "_compared", "_judged_at")
