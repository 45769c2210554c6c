"""One optimizer step: forward, backward, update, and what can go wrong on the way."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, final

import msgspec
import torch
from torch import Tensor, nn

from pnne_nb.errors import Diagnostic, ExecutionError, TrainingError
from pnne_nb.frames import AnomalyFrame
from pnne_nb.runtime import blame
from pnne_nb.runtime.batches import Batch, StandIn, as_batch
from pnne_nb.runtime.easing import OthersOutOfMemoryError, batch_norms, is_out_of_memory, pieces
from pnne_nb.runtime.failures import device_lost, spread
from pnne_nb.runtime.forward import ForwardPass
from pnne_nb.runtime.logged import averaged
from pnne_nb.runtime.modes import Modes
from pnne_nb.runtime.observers import Observers
from pnne_nb.runtime.randomness import PrivateRandomness
from pnne_nb.runtime.soundness import Soundness, total_norm
from pnne_nb.runtime.stages import Stages
from pnne_nb.runtime.weighing import counts_for_nothing, shares


class NotFiniteError(TrainingError):
    """The loss or a gradient is NaN or infinite; the model is as it was before the step."""


class Step(msgspec.Struct, frozen=True):
    """A step that was made.

    Attributes:
        loss: Averaged over the examples.
        rate: Learning rate of the first parameter group, as used.
        norm: Euclidean norm of all gradients before clipping, or None where it was not taken.
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
NORMS_AT_FIRST = 32
NORM_EVERY = 16
"""The norm of all gradients costs some percent of a small model's step: every step at first, then one in so many."""


class _WeighedOtherwiseError(Exception):
    """The parts of a batch count otherwise than this step has begun with."""


@final
class Stepper:
    """Makes optimizer steps, all or nothing.

    Attributes:
        eased: What memory that was too small has led to, and what else is to be told of a step, until somebody takes it
            out.
        stages: Where the time goes; whoever calls `make` has started it.
        pieces: Into how many each batch is cut, because memory was too small.
    """

    def __init__(self, forward: ForwardPass, modes: Modes, randomness: PrivateRandomness, observers: Observers) -> None:
        self.eased: list[AnomalyFrame] = []
        self.stages = Stages()
        self.pieces = 1
        self._forward = forward
        self._modes = modes
        self._randomness = randomness
        self._observers = observers
        self._soundness = Soundness(forward.recipe.device)
        self._updating = False
        self._all_know = False
        self._compared_before = False
        self._place = (0, 0)

    def make(self, group: Sequence[Any], number: int, epoch: int) -> Step:
        """A step; where memory is too small for it, the same one from smaller pieces of the batches.

        Args:
            group: Raw batches whose gradients are added up.
            number: Of the step, from 1, and `epoch` where it is made: for messages and observers.
            epoch: From 1.

        Raises:
            NotFiniteError: The loss or a gradient is no number.
            TrainingError: The data does not fit the model, or nothing depends on the parameters.
            RuntimeError: Memory is too small even for one example, or for the optimizer.
        """
        self._place = number, epoch
        while True:
            cut = list(enumerate(group)) if self.pieces == 1 else self._cut(group)
            try:
                return self._step_or_nothing([raw for _, raw in cut], [number for number, _ in cut])
            except _WeighedOtherwiseError:
                continue
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                largest = max(self._size(raw) for _, raw in cut)
                if self._updating or not self._can_ease(largest):
                    raise
            # Outside of the block: the exception holds on to the tensors that were too many.
            self._ease(largest, number)

    def _size(self, raw: Any) -> int:
        return as_batch(raw, wants_target=self._forward.recipe.compares).examples

    def _can_ease(self, largest: int) -> bool:
        peers = self._forward.recipe.peers
        if peers.count == 1:
            return largest > 1
        # Of a backward pass that fails in one process, the others do not know: they wait for its gradients.
        return self._all_know and peers.sum([float(largest > 1)])[0] > 0

    def _cut(self, group: Sequence[Any]) -> list[tuple[int, Any]]:
        """The pieces of all batches, each with the number of its batch."""
        several = self._forward.recipe.peers.count > 1
        cut: list[tuple[int, Any]] = []
        for number, raw in enumerate(group):
            found = pieces(raw, self.pieces, self._size(raw))
            if several:
                # All processes make equally many passes, whatever their parts of the batch are.
                found += [StandIn(found[0])] * (self.pieces - len(found))
            cut += [(number, piece) for piece in found]
        return cut

    def _ease(self, largest: int, number: int) -> None:
        self.stages.ended("other")
        self.pieces *= 2
        self._forward.recipe.optimizer.zero_grad(set_to_none=True)
        if self._forward.recipe.device.type != "cpu":
            torch.accelerator.empty_cache()
        unless = "" if self._forward.recipe.compares else ", if the loss is a mean over the examples"
        compared = batch_norms(self._forward.recipe.model)
        if compared:
            listed = f"{', '.join(map(repr, compared[:3]))}{' …' * (len(compared) > 3)}"
            unless += f", except to batch norm ({listed}), which sees the pieces one by one"
        message = (
            f"Out of memory at step {number} with {largest} examples at once: from here on, each batch is "
            f"cut into {self.pieces} pieces whose gradients are added up, so that a step means the same{unless}."
        )
        hint = "A smaller batch_size, or bf16, saves memory as well."
        self.eased.append(AnomalyFrame(step=number, kind="out-of-memory", message=message, hint=hint))

    def _weigh_anew(self) -> None:
        """What the loss makes of its examples was found out: say where parts are inexact, or make the step by it."""
        match self._forward.reduction:
            case "sum":
                raise _WeighedOtherwiseError
            case "other":
                name = getattr(self._forward.recipe.loss, "__name__", "")
                message = (
                    f"The loss{f' {name}' * bool(name)} is neither a mean nor a sum over the examples, and each batch is in "
                    "parts: these count by their examples, which comes near to what the whole batch would say."
                )
                hint = "A smaller batch_size with start() has no parts; torch's own losses are weighed exactly."
                self.eased.append(AnomalyFrame(self._place[0], "inexact-parts", message, hint=hint))

    def _step_or_nothing(self, group: Sequence[Any], of: Sequence[int]) -> Step:
        """A step that raises leaves buffers and random state as before: it can be made again, or inspected."""
        buffers = self._modes.buffers
        buffers.take()
        # An optimizer that evaluates the loss in the middle of its update may leave with a half-made one.
        undo = _undo(self._forward.recipe.optimizer) if self._forward.recipe.needs_closure else None
        try:
            return self._step(group, of)
        except BaseException as error:
            lost = device_lost(error)
            if lost is not None:
                raise lost from error
            buffers.restore()
            self._forward.recipe.precision.abandon()
            if undo is not None:
                undo()
            self._randomness.rewind()
            raise

    def _step(self, group: Sequence[Any], of: Sequence[int]) -> Step:
        number, _ = self._place
        recipe, stages = self._forward.recipe, self.stages
        optimizer, precision = recipe.optimizer, recipe.precision
        self._updating = self._all_know = False
        batches = [self._forward.prepare(raw) for raw in group]
        counting, examples = shares(recipe, batches, of, self._forward.reduction)
        rate = float(optimizer.param_groups[0]["lr"])
        stages.ended("data")
        with self._observers.watching(number) as watched:
            if watched is not None:
                stages.ended("observe")
            value, outputs = self._differentiate(group, batches, counting)
            precision.unscale(optimizer)
            if watched is not None:
                stages.ended("backward")
                watched.gradients_ready()
                stages.ended("observe")
            norm = self._check_gradients(group, batches, wanted=number <= NORMS_AT_FIRST or number % NORM_EVERY == 0)
            stages.ended("backward")
            self._updating = True
            if recipe.needs_closure:
                optimizer.step(self._closure(group, batches, counting, value))
                moved = True
            else:
                moved = precision.step(optimizer)
                if not moved and precision.exhausted:
                    what = f"A gradient stayed NaN or infinite while its scale fell to {precision.scale:g}"
                    raise self._not_finite(what, "nan-gradient", group, batches)
            stages.ended("optimizer")
            if watched is not None:
                watched.updated()
        if watched is not None:
            stages.ended("observe")
        compared, logged = False, None
        for output, batch in zip(outputs, batches, strict=True):
            compared = self._forward.count(recipe.metrics, output, batch)
        if recipe.compares and not self._compared_before:
            self._compared_before = True
            self._tell_spread(outputs[0], batches[0])
        if not recipe.compares:
            told = [(output, batch.examples) for output, batch in zip(outputs, batches, strict=True)]
            logged = averaged(told, recipe.peers)
        return Step(value, examples, rate, norm, not moved, logged, compared)

    def _tell_spread(self, output: Any, batch: Batch) -> None:
        found = spread(self._forward.recipe.loss, output, batch.target)
        if found is not None:
            message, hint = found
            self.eased.append(AnomalyFrame(self._place[0], "spread-targets", message, hint=hint))

    def _differentiate(
        self, group: Sequence[Any], batches: Sequence[Batch], counting: Sequence[float]
    ) -> tuple[float, list[Any]]:
        """Loss and outputs of the batches; leaves the gradients of the loss with the parameters.

        The stage of the last backward pass is still open then.
        """
        recipe, stages = self._forward.recipe, self.stages
        peers, precision = recipe.peers, recipe.precision
        together = peers.count > 1 and not recipe.in_parts
        parted = peers.count > 1 or self.pieces > 1
        value = 0.0
        outputs: list[Any] = []
        recipe.optimizer.zero_grad(set_to_none=True)
        for raw, batch, share in zip(group, batches, counting, strict=True):
            if outputs:
                stages.ended("backward")
            if peers.count > 1:
                peers.present = batch.counts
            output, loss = self._run_together(raw, batch) if together else self._forward.run(raw, batch)
            if not share:
                loss = counts_for_nothing(output, loss)
            value += peers.sum([loss.item() * share])[0]
            stages.ended("forward")
            if not math.isfinite(value):
                done = len(outputs) + 1
                raise self._not_finite(f"The loss became {value}", "nan-loss", group[:done], batches[:done])
            if parted and self._forward.find_reduction(output, batch, loss.item()):
                self._weigh_anew()
            # What arrives at the parameters is the mean over all processes.
            weight = share * peers.count
            if not loss.requires_grad:
                raise TrainingError(_NO_GRADIENT)
            precision.backward(loss if weight == 1.0 else loss * weight)
            outputs.append(output.detach() if isinstance(output, Tensor) else output)
        return value, outputs

    def _run_together(self, raw: Any, batch: Batch) -> tuple[Any, Tensor]:
        """The forward pass of one process of several; where it is too much for one, it is for all."""
        peers = self._forward.recipe.peers
        made, short = None, ""
        try:
            made = self._forward.run(raw, batch)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if isinstance(error, OthersOutOfMemoryError):
                self._all_know = True
                raise
            short = str(error)
        self._all_know = peers.sum([float(made is None)])[0] > 0
        if made is None or self._all_know:
            raise torch.OutOfMemoryError(short or "Another process of the group is out of memory.")
        return made

    def _closure(
        self, group: Sequence[Any], batches: Sequence[Batch], counting: Sequence[float], value: float
    ) -> Callable[[], float]:
        """What an optimizer such as LBFGS calls for the loss at other parameters: the same batches and draws."""
        known: list[float] = [value]

        def loss() -> float:
            if known:
                return known.pop()
            self._randomness.rewind()
            found, _ = self._differentiate(group, batches, counting)
            self._check_gradients(group, batches, wanted=False)
            self.stages.ended("backward")
            return found

        return loss

    def _check_gradients(self, group: Sequence[Any], batches: Sequence[Batch], *, wanted: bool) -> float | None:
        """Clip the gradients if need be; returns their norm if it is `wanted` or taken anyway."""
        recipe = self._forward.recipe
        groups = recipe.optimizer.param_groups
        gradients = [grad for group in groups for one in group["params"] if (grad := one.grad) is not None]
        if not gradients:
            raise TrainingError(_NO_GRADIENT)
        taken = wanted or recipe.grad_clip is not None
        found = total_norm(gradients) if taken else None
        norm = None if found is None else found.item()
        # A scaler looks itself, and skips the step.
        if recipe.precision.scaler is None:
            sound = self._soundness.of(gradients) if norm is None else math.isfinite(norm)
            if recipe.peers.sum([float(not sound)])[0]:
                raise self._not_finite("A gradient became NaN or infinite", "nan-gradient", group, batches)
        if found is not None and recipe.grad_clip is not None:
            parameters = [parameter for group in groups for parameter in group["params"]]
            nn.utils.clip_grads_with_norm_(parameters, recipe.grad_clip, found)
        return norm

    def _not_finite(
        self, what: str, kind: Literal["nan-loss", "nan-gradient"], group: Sequence[Any], batches: Sequence[Batch]
    ) -> NotFiniteError:
        model, batch = self._forward.recipe.model, batches[-1]
        made = self._made_again(group, batches, backward=kind == "nan-gradient")
        if made is not None:
            node = made.diagnostics[0].node
        elif kind == "nan-gradient":
            node = blame.gradient_not_finite(model)
        else:
            node = blame.output_not_finite(model, batch.inputs, batch.named)
        hint = "Try a smaller learning rate or grad_clip=1.0, and look for NaN in the data."
        lost = blame.parameters_not_finite(model)
        if lost:
            hint = (
                f"But {', '.join(lost[:3])}{' …' * (len(lost) > 3)} held NaN or infinity by then: an update before it, or a "
                f"cell, has put it there. Go on from a checkpoint before that. {hint}"
            )
        number, epoch = self._place
        rate = float(self._forward.recipe.optimizer.param_groups[0]["lr"])
        where = "" if node is None else f", first at node {node!r}"
        message = f"{what} at step {number} (epoch {epoch}, learning rate {rate:g}){where}."
        error = NotFiniteError(
            f"{message} The model is as it was before that step. {hint}",
            [Diagnostic(code=kind, message=message, node=node, hint=hint)],
        )
        if made is not None:
            error.add_note(made.message)
        return error

    def _made_again(self, group: Sequence[Any], batches: Sequence[Batch], *, backward: bool) -> ExecutionError | None:
        """What names the node that makes the first NaN, when the same passes are made again."""
        recipe = self._forward.recipe
        if recipe.in_parts or (backward and recipe.peers.count > 1):
            return None  # The other processes would wait for this one, which ends in the middle.
        self._modes.buffers.restore()
        self._randomness.rewind()

        def again() -> None:
            with torch.set_grad_enabled(backward):
                for raw, batch in zip(group, batches, strict=True):
                    _, loss = self._forward.run(raw, batch)
                    if backward:
                        recipe.precision.backward(loss)

        return blame.first_not_finite(recipe.model, again)


def _undo(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """Keeps parameters and the optimizer's state; returns what puts them back."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    kept, state = [parameter.detach().clone() for parameter in parameters], copy.deepcopy(optimizer.state_dict())

    @torch.no_grad()
    def restore() -> None:
        for parameter, value in zip(parameters, kept, strict=True):
            parameter.copy_(value)
        optimizer.load_state_dict(state)

    return restore
