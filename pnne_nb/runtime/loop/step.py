"""`Stepper`: makes one optimizer step: forward, backward, update.

What else may happen has a place of its own: `oom_retry` cuts batches for which memory is too small, `loss_weighting`
weighs the parts of a batch, `fault_replay` undoes a step that fails and finds the node of the first NaN, and `Peers`
answers what concerns all processes of a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal, final

import msgspec
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import to_device
from pnne_nb.diagnosis import layer_look
from pnne_nb.diagnosis.first_step_rules import first_step_faults, spread
from pnne_nb.diagnosis.layer_look import LayerLook
from pnne_nb.diagnosis.target_sample import TargetSample
from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import Batch, StandIn
from pnne_nb.runtime.faults.error_messages import device_lost, loss_failed, model_failed, name_layer
from pnne_nb.runtime.loop.active_recipe import ActiveRecipe
from pnne_nb.runtime.loop.disturbances import Disturbances, Modes
from pnne_nb.runtime.loop.fault_replay import FaultReplay, FiniteCheck, NotFiniteError, StepPlace, pieces_of, total_norm
from pnne_nb.runtime.loop.loss_weighting import counts_for_nothing, shares
from pnne_nb.runtime.loop.oom_retry import OutOfMemoryRetry
from pnne_nb.runtime.loop.step_ring import StepRing
from pnne_nb.runtime.monitoring.probes import Observers, Watched
from pnne_nb.runtime.monitoring.resources import Stages
from pnne_nb.runtime.objective.losses import (
    expect_classes,
    require_classes,
    require_yes_and_no,
    scores_for_loss,
    target_for_loss,
)
from pnne_nb.runtime.objective.objective import single_loss
from pnne_nb.runtime.objective.step_logs import averaged, read, scalar
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.runtime.thread.rng import PrivateRandomness
from pnne_nb.telemetry.frames import AnomalyFrame


class StepResult(msgspec.Struct, frozen=True):
    """The measurements of a step.

    Attributes:
        loss: Averaged over the examples.
        examples: Number of examples in all processes.
        rate: Learning rate of the first parameter group, as used.
        norm: Euclidean norm of all gradients before clipping, or None where it was not computed.
        skipped: Whether the parameters stayed, because a scaled gradient overflowed.
        logged: What a step function told beside the loss, averaged over the examples, or None.
        compared: Whether metrics had an output to compare with a target.
    """

    loss: float
    examples: int
    rate: float
    norm: float | None
    skipped: bool
    logged: dict[str, float] | None
    compared: bool


_NO_GRADIENT = (
    "No parameter got a gradient: the loss does not depend on the model's parameters. Is part of the forward pass under "
    "torch.no_grad() or detached, or was the optimizer made for another model?"
)
_NOTHING: AbstractContextManager[None] = nullcontext()
NORMS_AT_FIRST = 32
NORM_EVERY = 16
"""The norm of all gradients costs some percent of a small model's step: every step at first, then one in so many."""


def forward(recipe: Recipe, raw: Any, batch: Batch) -> tuple[Any, Tensor]:
    """Compute output and loss of a batch, in training as in validation.

    Args:
        recipe: Has the model and the loss function.
        raw: The batch as the data gave it, for a step function.
        batch: The same, ready for the model: tensors `[N, ...]`, N examples.

    Returns:
        The output, tensors `[N, ...]` or collections of them, and the loss `[]`. Without a loss function, what was told
        beside the loss takes the place of the output; see `step_logs`.

    Raises:
        TrainingError: The loss is not one number, or the data does not fit the model or the loss.
    """
    model, loss_function = recipe.model, recipe.loss
    with recipe.precision.autocast():
        if recipe.step is not None:
            given = to_device(raw.raw if isinstance(raw, StandIn) else raw, recipe.device)
            try:
                returned = recipe.step(model, given)
            except Exception as error:
                name_layer(error, model)
                raise
            return read(returned, "The step function")
        runs = model if recipe.trained is None or not torch.is_grad_enabled() else recipe.trained
        try:
            output = runs(*batch.inputs, **batch.named)
        except Exception as error:
            explained = model_failed(error, model, batch)
            if explained is None:
                name_layer(error, model)
                raise
            raise explained from error
        if recipe.scattered:
            output = to_device(output, recipe.device)
        if loss_function is None:
            return read(output, "Without a loss, the model must return its own: it")
        target = target_for_loss(loss_function, output, batch.target)
        scores = scores_for_loss(loss_function, output, target)
        require_classes(loss_function, scores)
        if target is not batch.target:
            require_yes_and_no(batch.target)
        try:
            if batch.span is not None:
                expect_classes(batch.span, scores)
            loss = loss_function(scores, target)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            explained = loss_failed(error, loss_function, output, target)
            if explained is None:
                raise
            raise explained from error
        return output, scalar(loss, "The loss function")


def drop_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Do what ``zero_grad()`` does, without its profiler label, which costs a percent of a small model's step."""
    if type(optimizer).zero_grad is not torch.optim.Optimizer.zero_grad:
        optimizer.zero_grad(set_to_none=True)
        return
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def _read(values: Sequence[float | Tensor]) -> list[float]:
    """Return numbers of which some are tensors `[]`: those of an accelerator by one transfer."""
    # What is more than a tensor, such as one that processes share, tells its number itself.
    waiting = [value for value in values if type(value) is Tensor and not value.is_cpu]
    arrived: Iterator[float] = iter(())
    if waiting:
        wide = torch.float64 if any(each.dtype == torch.float64 for each in waiting) else torch.float32
        arrived = iter(torch.stack([each.to(waiting[0].device, wide) for each in waiting]).tolist())
    return [next(arrived) if type(value) is Tensor and not value.is_cpu else float(value) for value in values]


@final
class Stepper:
    """Makes optimizer steps, all or nothing.

    Attributes:
        notices: What to tell about the steps beside their results; the loop takes it out.
        stages: Where the time goes; started before `make` is called.
        memory: Cuts batches for which memory is too small.
        ring: Knows the last steps.
        last: The last step of the training, if that is known; the layers are looked at in it.
        disturbances: What cells do in the middle of a step.
        meanwhile: What is done once an accelerator has all the work of the gradients, before the step waits for it.
    """

    def __init__(self, active: ActiveRecipe, modes: Modes, randomness: PrivateRandomness, observers: Observers) -> None:
        self.notices: list[AnomalyFrame] = []
        self.stages = Stages()
        self.memory = OutOfMemoryRetry(active)
        self._active = active
        self._randomness = randomness
        self._observers = observers
        self.ring = StepRing()
        self._replay = FaultReplay(active, modes, randomness, self.ring)
        self.disturbances = Disturbances(modes)
        self._finite = FiniteCheck(active.recipe.device)
        self.last: int | None = None
        self.meanwhile: Callable[[], None] | None = None
        self._targets = TargetSample()
        self._compared_before = False
        self._function = ""  # of autograd, which has made the last output
        self._place = StepPlace(0, 0, 0)
        self._of: Sequence[int] = ()

    def make(self, group: Sequence[Any], place: StepPlace) -> StepResult:
        """Make one step from raw batches, whose gradients are added up; if memory is too small, repeat it with smaller pieces.

        Raises:
            NotFiniteError: The loss or a gradient is NaN or infinite.
            TrainingError: The data does not fit the model, or nothing depends on the parameters.
            RuntimeError: Memory is too small even for one example, or for the optimizer.
            HeldError: A cell has changed a mode or compiles, and still runs; nothing of the step was made.
        """
        self._place = place
        while True:
            raws, of = self.memory.cut(group)
            self._replay.begin()
            try:
                return self._step(raws, of)
            except BaseException as error:
                # It can be made again, or inspected.
                self._undo(error)
                if self.disturbances.made(error):
                    continue
                if not isinstance(error, RuntimeError):
                    raise
                largest = self.memory.largest(error, raws)
            finally:
                self.disturbances.release_compiler()
            # Outside of the block: the exception holds on to the tensors that were too many.
            self.stages.ended("other")
            self.notices.append(self.memory.ease(largest, place.step))

    def _undo(self, error: BaseException) -> None:
        lost = device_lost(error)
        if lost is not None:
            raise lost from error
        self._replay.undo()

    def _step(self, raws: Sequence[Any], of: Sequence[int]) -> StepResult:
        """Forward, backward, update of raw batches or pieces of them; `of` has the number of each one's batch, from 0."""
        active, stages, number = self._active, self.stages, self._place.step
        self._of = of
        recipe = active.recipe
        optimizer, precision = recipe.optimizer, recipe.precision
        batches = [active.prepare(raw) for raw in raws]
        weights, examples = shares(recipe, batches, of)
        rate = float(optimizer.param_groups[0]["lr"])
        stages.ended("data")
        with self._observers.watching(number) as watched, self._looking(recipe, number) as looked:
            if watched is not None:
                stages.ended("observe")
            losses, outputs = self._differentiate(raws, batches, weights)
            if recipe.peers.count == 1:
                self.disturbances.look()
            precision.unscale(optimizer)
            if watched is not None:
                stages.ended("backward")
                watched.gradients_ready()
                stages.ended("observe")
            if looked is not None:
                looked.gradients_ready()
            if self.meanwhile is not None:
                stages.ended("backward")
                self.meanwhile()
                stages.ended("data")
            wanted = number <= NORMS_AT_FIRST or number % NORM_EVERY == 0
            value, norm, scaling = self._check(raws, batches, losses, wanted=wanted)
            stages.ended("backward")
            self.memory.updating = True
            moved = True
            if recipe.needs_closure:
                optimizer.step(self._closure(raws, batches, weights, value))
            elif not precision.step(optimizer, scaling):
                moved = False
                if precision.exhausted:
                    what = f"A gradient stayed NaN or infinite while its scale fell to {precision.scale:g}"
                    raise self._not_finite(what, "nan-gradient", raws, batches)
            stages.ended("optimizer")
            self.disturbances.over()
            if watched is not None:
                watched.updated()
            if looked is not None:
                looked.updated()
        if watched is not None:
            stages.ended("observe")
        compared, logged = False, None
        for output, batch in zip(outputs, batches, strict=True):
            compared = active.count(recipe.metrics, output, batch)
        if not recipe.compares:
            told = [(output, batch.examples) for output, batch in zip(outputs, batches, strict=True)]
            logged = averaged(told, recipe.peers)
        elif not self._compared_before:
            self._compared_before = True
            self._tell_faults(outputs[0], batches[0], value, norm)
        if recipe.compares and self._targets.wants and recipe.peers.count == 1 and not self._observers.muted:
            self._sample_targets(recipe, batches)
        return StepResult(value, examples, rate, norm, not moved, logged, compared)

    def _differentiate(
        self, raws: Sequence[Any], batches: Sequence[Batch], weights: Sequence[float]
    ) -> tuple[list[float | Tensor], list[Any]]:
        """Run the forward and backward passes, which accumulate the parameters' gradients; the last stage is still open then.

        Returns:
            The weighed loss of each batch, of all processes, and the outputs of this one: tensors `[N, ...]`, or collections
            of them. A loss on an accelerator is a tensor `[]` that nobody has waited for.
        """
        recipe, stages = self._active.recipe, self.stages
        peers, precision = recipe.peers, recipe.precision
        alone = peers.count == 1
        in_parts = not alone or self.memory.pieces > 1
        value = 0.0
        losses: list[float | Tensor] = []
        outputs: list[Any] = []
        drop_gradients(recipe.optimizer)
        for raw, batch, weight in zip(raws, batches, weights, strict=True):
            if outputs:
                stages.ended("backward")
            made = partial(forward, recipe, raw, batch)
            output, loss = made() if alone else self.memory.forward_with_peers(batch, made)
            if not weight:
                loss = counts_for_nothing(output, loss)
            if loss.is_cpu or in_parts:
                told = peers.total(loss.item() * weight)
                losses.append(told)
                value += told
                self._expect_finite(value, raws, batches, len(losses))
            else:
                losses.append(loss.detach() * weight)
            stages.ended("forward")
            if not loss.requires_grad:
                raise TrainingError(_NO_GRADIENT)
            # What arrives at the parameters is the mean over all processes.
            factor = weight * peers.count
            precision.backward(loss if factor == 1.0 else loss * factor)
            if isinstance(output, Tensor):
                if not self._compared_before and output.grad_fn is not None:
                    self._function = output.grad_fn.name()
                output = output.detach()
            outputs.append(output)
        return losses, outputs

    def _expect_finite(self, value: float, raws: Sequence[Any], batches: Sequence[Batch], done: int) -> None:
        if not math.isfinite(value):
            raise self._not_finite(f"The loss became {value}", "nan-loss", raws, batches, done)

    def _check(
        self, raws: Sequence[Any], batches: Sequence[Batch], losses: Sequence[float | Tensor], *, wanted: bool
    ) -> tuple[float, float | None, Sequence[float]]:
        """Raise an error unless the losses and gradients are finite, and clip the gradients if configured.

        All that is known of the step is read here, so that it waits for an accelerator once.

        Returns:
            The loss, the norm of the gradients if it was computed, and what `Precision.step` is to know.
        """
        recipe = self._active.recipe
        groups = recipe.optimizer.param_groups
        gradients = [grad for group in groups for one in group["params"] if (grad := one.grad) is not None]
        if not gradients:
            raise TrainingError(_NO_GRADIENT)
        found = total_norm(gradients) if wanted or recipe.grad_clip is not None else None
        # A scaler looks itself, and skips the step.
        scaling = recipe.precision.unread(recipe.optimizer)
        checked = [] if scaling else [found if found is not None else self._finite.of(gradients)]
        norms = [found] if scaling and found is not None else []
        told = _read([*losses, *scaling, *checked, *norms])
        value = 0.0
        for number, loss in enumerate(told[: len(losses)], 1):
            value += loss
            self._expect_finite(value, raws, batches, number)
        norm = None if found is None else told[-1]
        if not scaling:
            finite = told[-1] == 0.0 if norm is None else math.isfinite(norm)
            if recipe.peers.any(not finite):
                raise self._not_finite("A gradient became NaN or infinite", "nan-gradient", raws, batches)
        if found is not None and recipe.grad_clip is not None:
            parameters = [parameter for group in groups for parameter in group["params"]]
            nn.utils.clip_grads_with_norm_(parameters, recipe.grad_clip, found)
        return value, norm, told[len(losses) : len(losses) + len(scaling)]

    # Seams

    def _closure(
        self, raws: Sequence[Any], batches: Sequence[Batch], weights: Sequence[float], value: float
    ) -> Callable[[], float]:
        """Return the closure for an optimizer such as LBFGS: the loss at other parameters, with the same batches and draws."""
        known: list[float] = [value]

        def loss() -> float:
            if known:
                return known.pop()
            self._randomness.rewind()
            losses, _ = self._differentiate(raws, batches, weights)
            found, _, _ = self._check(raws, batches, losses, wanted=False)
            self.stages.ended("backward")
            return found

        return loss

    def _not_finite(
        self,
        what: str,
        kind: Literal["nan-loss", "nan-gradient"],
        raws: Sequence[Any],
        batches: Sequence[Batch],
        done: int | None = None,
    ) -> NotFiniteError:
        recipe, backward = self._active.recipe, kind == "nan-gradient"
        pieces = pieces_of(batches, self._of, recipe.peers)[:done]

        def again() -> Sequence[Tensor]:
            drop_gradients(recipe.optimizer)
            results: list[Tensor] = []
            for raw, piece in zip(raws[:done], pieces, strict=True):
                _, loss = forward(recipe, raw, piece.batch)
                results = [loss]
                if backward:
                    recipe.precision.backward(loss)
            if not backward:
                return results
            groups = recipe.optimizer.param_groups
            return [grad for group in groups for one in group["params"] if (grad := one.grad) is not None]

        return self._replay.not_finite(what, kind, self._place, pieces, again)

    def _tell_faults(self, output: Any, batch: Batch, value: float, norm: float | None) -> None:
        recipe = self._active.recipe
        clip = None if recipe.grad_clip is None or norm is None else (norm, recipe.grad_clip)
        target = target_for_loss(recipe.loss, output, batch.target)
        output = scores_for_loss(recipe.loss, output, target)
        loss, target = single_loss(recipe.loss, target)
        found = spread(loss, output, target)
        if recipe.peers.count == 1:
            found += first_step_faults(
                recipe.model, loss, output, target, value, recipe.optimizer, clip, self._function
            )
        self.notices += [each.frame(self._place.step) for each in found]

    def _looking(self, recipe: Recipe, step: int) -> AbstractContextManager[Watched | None]:
        """Look at the layers in a few steps; not where each process has a part of the gradients."""
        due = step in layer_look.STEPS or step == self.last
        return self._observers.looking(LayerLook(recipe.model), step) if due and recipe.peers.count == 1 else _NOTHING

    def _sample_targets(self, recipe: Recipe, batches: Sequence[Batch]) -> None:
        for batch in batches:
            loss, target = single_loss(recipe.loss, batch.target)
            if self._targets.add(target):
                found, baseline = self._targets.conclude(loss)
                self.notices += [each.frame(self._place.step) for each in found]
                if baseline is not None:
                    self._observers.publish([baseline])
