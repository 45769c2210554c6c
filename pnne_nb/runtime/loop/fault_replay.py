"""`FaultReplay`: undoes a failed step, and repeats it to find the origin of the first NaN."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, final

import msgspec
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.nan_origin import NanOrigin, OriginTrace
from pnne_nb.diagnosis.fault import Fault, NanCause, cause_of, listed
from pnne_nb.errors import Diagnostic, TrainingError
from pnne_nb.runtime.data.batches import Batch
from pnne_nb.runtime.data.sources import examples_of
from pnne_nb.runtime.faults import fault_location
from pnne_nb.runtime.loop.active_recipe import ActiveRecipe
from pnne_nb.runtime.loop.disturbances import Modes
from pnne_nb.runtime.loop.step_ring import StepRing
from pnne_nb.runtime.objective.step_logs import Peers
from pnne_nb.runtime.thread.rng import PrivateRandomness


class NotFiniteError(TrainingError):
    """The loss or a gradient is NaN or infinite; the model is in its state before the step.

    Attributes:
        fault: Where it was made, and why; None where the step could not be made again.
    """

    fault: Fault | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """With the fault, for another process."""
        return (*super().__reduce__(), {"fault": self.fault})


class StepPlace(NamedTuple):
    """The place of a step in the training: its number and epoch, from 1, and the batches of the epoch before it."""

    step: int
    epoch: int
    position: int


class Piece(NamedTuple):
    """A batch or a part of it that goes through the model at once.

    Attributes:
        batch: Its tensors ``[n, ...]``; all of a batch, or a piece of it.
        number: Of the batch in the step, from 0.
        first: The row in that batch of its first example: others may be before it, in other pieces or processes.
    """

    batch: Batch
    number: int
    first: int


def pieces_of(batches: Sequence[Batch], of: Sequence[int], peers: Peers) -> list[Piece]:
    """Return the pieces of a step with their places in the batches; called by every process of a group.

    Args:
        batches: What goes through the model one by one, tensors ``[n, ...]`` each.
        of: For each, the number of its batch, from 0.
        peers: All processes, which share each batch by the order of their numbers.
    """
    count = of[-1] + 1
    sizes = [0.0] * (peers.count * count)
    for batch, number in zip(batches, of, strict=True):
        sizes[peers.rank * count + number] += batch.examples
    if peers.count > 1:
        sizes = peers.sum(sizes)
    first = [int(sum(sizes[number : peers.rank * count : count])) for number in range(count)]
    found = []
    for batch, number in zip(batches, of, strict=True):
        found.append(Piece(batch, number, first[number]))
        first[number] += batch.examples
    return found


@final
class FaultReplay:
    """Saves the state that a step changes, to undo and repeat the step."""

    def __init__(self, active: ActiveRecipe, modes: Modes, randomness: PrivateRandomness, ring: StepRing) -> None:
        self._active = active
        self._modes = modes
        self._randomness = randomness
        self._ring = ring
        self._undo_update: Callable[[], None] | None = None

    def begin(self) -> None:
        """Save the state at the beginning of a step."""
        self._modes.buffers.take()
        # Copies of the step before are given back first.
        self._undo_update = None
        recipe = self._active.recipe
        if recipe.needs_closure:
            # An optimizer that evaluates the loss in the middle of its update may leave with a half-made one.
            self._undo_update = _undo_of(recipe.optimizer)

    def undo(self) -> None:
        """Restore buffers and random state and, if the update had begun, parameters and optimizer state."""
        self._modes.buffers.restore()
        self._active.recipe.precision.abandon()
        if self._undo_update is not None:
            self._undo_update()
        self._randomness.rewind()

    def not_finite(
        self,
        what: str,
        kind: Literal["nan-loss", "nan-gradient"],
        place: StepPlace,
        pieces: Sequence[Piece],
        again: Callable[[], Sequence[Tensor]],
    ) -> NotFiniteError:
        """Return the error for a non-finite loss or gradient, with the operation that produced the first such value.

        Args:
            what: The fact, as the beginning of a sentence.
            kind: Which of the two.
            place: Of the step.
            pieces: Those that went through the model.
            again: Makes the passes of the step again, and returns the loss `[]`, or for ``"nan-gradient"`` the gradients,
                each `[*]` of its parameter's shape.
        """
        recipe = self._active.recipe
        rate = float(recipe.optimizer.param_groups[0]["lr"])
        fault = self._fault(place, pieces, again, rate, backward=kind == "nan-gradient")
        if fault is not None and fault.stage is not None:
            node = fault.node
        elif kind == "nan-gradient":
            node = fault_location.gradient_not_finite(recipe.model)
        else:
            node = fault_location.output_not_finite(recipe.model, pieces[-1].batch.inputs, pieces[-1].batch.named)
        hint = "Try a smaller learning rate or grad_clip=1.0, and look for NaN in the data."
        lost = [name for name, parameter in recipe.model.named_parameters() if not parameter.isfinite().all()]
        if fault is not None:
            hint = f"{fault.cause} {fault.advice}"
        if lost and not (fault is not None and fault.stage == "weights"):
            hint = (
                f"But {', '.join(lost[:3])}{' …' * (len(lost) > 3)} held NaN or infinity by then: an update before it, or a "
                f"cell, has put it there. Go on from a checkpoint before that. {hint}"
            )
        where = "" if node is None else f", first at node {node!r}"
        if node is None and fault is not None and fault.source is not None:
            where = f", first in {fault.operation} at {fault.source}"
        message = f"{what} at step {place.step} (epoch {place.epoch}, learning rate {rate:g}){where}."
        error = NotFiniteError(
            f"{message} The model is as it was before that step. {hint}",
            [Diagnostic(code=kind, message=message, node=node, hint=hint)],
        )
        error.fault = fault
        if fault is not None and fault.facts:
            error.add_note("\n".join(fault.facts))
        return error

    def _fault(
        self,
        place: StepPlace,
        pieces: Sequence[Piece],
        again: Callable[[], Sequence[Tensor]],
        rate: float,
        *,
        backward: bool,
    ) -> Fault | None:
        """Repeat the passes and trace them; return None if they cannot be repeated."""
        recipe = self._active.recipe
        if recipe.in_parts or (backward and recipe.peers.count > 1):
            return None  # The other processes would wait for this one, which ends in the middle.
        self._modes.buffers.restore()
        self._randomness.rewind()
        inputs = [name for name, _ in recipe.expected]
        given = [_named(piece.batch, inputs) for piece in pieces]
        trace = OriginTrace(recipe.model, _numbered(given))
        results: Sequence[Tensor] = ()
        try:
            with torch.enable_grad(), trace:
                results = again()
        except Exception:  # noqa: BLE001  what has failed is told, not the search for who has made it
            return None
        origin = trace.origin(results)
        if origin is None and (recipe.peers.count > 1 or any(not bool(result.isfinite().all()) for result in results)):
            # In a group, the part of another process may have it.
            return None
        at = len(pieces) - 1
        if origin is not None and origin.stage == "data" and len(pieces) > 1:
            number, _, name = origin.name.partition(" ")
            at, origin = int(number), msgspec.structs.replace(origin, name=name)
        return self._described(origin, place, pieces[at], pieces[-1].number + 1, given[at], rate)

    def _described(
        self,
        origin: NanOrigin | None,
        place: StepPlace,
        piece: Piece,
        count: int,
        given: Mapping[str, Tensor],
        rate: float,
    ) -> Fault:
        recipe, position = self._active.recipe, place.position + piece.number
        cause = _TRANSIENT
        rows: tuple[int, ...] = ()
        columns: tuple[int, ...] = ()
        if origin is not None:
            rows = tuple(piece.first + row for row in origin.rows(piece.batch.examples))
            if origin.stage == "data":
                cause = _of_data(origin, position, piece.first)
                columns = origin.bad[1] if len(origin.bad) == 2 else ()
                node = origin.name if origin.name in {known for known, _ in recipe.expected} else None
                origin = msgspec.structs.replace(origin, node=node, operands=())
            else:
                cause = cause_of(origin, self._ring.losses, rate)
        numbers = examples_of(recipe.train, place.epoch, position) or ()
        return Fault(
            place.step,
            place.epoch,
            position + 1,
            count,
            None if origin is None else origin.stage,
            None if origin is None else origin.node,
            None if origin is None else origin.operation,
            None if origin is None else origin.source,
            rows,
            columns,
            tuple(numbers[row] for row in rows if row < len(numbers)),
            cause.kind,
            cause.text,
            cause.advice,
            "" if origin is None else origin.made,
            () if origin is None else origin.operands,
            {name: tensor.detach().clone() for name, tensor in given.items()},
            piece.first,
            origin is not None and origin.outside,
        )


_TRANSIENT = NanCause(
    "transient",
    "The same step, made again with the same numbers, was finite: it did not repeat.",
    "Go on with start(). If it comes back, look for code whose results are not the same each time, for data that "
    "changes while it is read, and for faulty hardware.",
)


def _of_data(origin: NanOrigin, position: int, first: int) -> NanCause:
    name = origin.name
    rows, columns = (*origin.bad, (), ())[:2]
    rows = tuple(first + row for row in rows)
    what = "NaN" if origin.nan else "infinite"
    row = f"row {rows[0]}" if rows else "a value"
    column = f", column {columns[0]}" if len(origin.bad) == 2 and columns else ""
    more = f"; {listed(rows)} in all" if len(rows) > 1 else ""
    role = "target" if name == "target" else "data"
    return NanCause(
        role,
        f"In {name!r}, {row}{column} of batch {position + 1} is {what}{more} ({origin.made.partition(' of ')[0]}).",
        "Drop or fill such examples before the training; engine.skip_batch() leaves this batch out, and start() goes on.",
    )


def _named(batch: Batch, names: Sequence[str]) -> dict[str, Tensor]:
    """Return the tensors of a batch by name: that of the Input node or of ``forward``'s parameter, else the number."""
    found: dict[str, Any] = {}
    for index, value in enumerate(batch.inputs):
        plain = "input" if len(batch.inputs) == 1 else f"input {index}"
        found[names[index] if index < len(names) else plain] = value
    found |= batch.named
    targets = batch.target if isinstance(batch.target, tuple | list) else [batch.target]
    for index, value in enumerate(targets):
        found["target" if len(targets) == 1 else f"target {index}"] = value
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def _numbered(given: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the tensors of several batches, with the batch's number before each name."""
    if len(given) == 1:
        return dict(given[0])
    return {f"{number} {name}": tensor for number, batch in enumerate(given) for name, tensor in batch.items()}


def _undo_of(optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """Save parameters and optimizer state; return a function that restores them."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    kept, state = [parameter.detach().clone() for parameter in parameters], copy.deepcopy(optimizer.state_dict())

    @torch.no_grad()
    def restore() -> None:
        for parameter, value in zip(parameters, kept, strict=True):
            parameter.copy_(value)
        optimizer.load_state_dict(state)

    return restore


@final
class FiniteCheck:
    """Checks all gradients, expected on `device`, with the operation of torch's `GradScaler`, which reads every number once.

    All gradients are looked at: a model may have branches, and parameters may make their own gradients infinite (a square
    root at 0), so no gradient tells of another.
    """

    def __init__(self, device: torch.device) -> None:
        self._found = torch.zeros((), device=device)
        self._one = torch.ones((), device=device)

    def of(self, gradients: list[Tensor]) -> Tensor:
        """Return, without waiting for the device, 0 if all gradients are finite, and else another number.

        Shape:
            - gradients: at least one tensor, each `[*]` of its parameter's shape.
            - Returns: `[]`; it changes with the next call.
        """
        self._found.zero_()
        try:
            torch._amp_foreach_non_finite_check_and_unscale_(gradients, self._found, self._one)
        except (RuntimeError, NotImplementedError):
            # Complex, sparse, sharded, or on several devices.
            return total_norm(gradients).isfinite().logical_not()
        return self._found


def total_norm(gradients: Sequence[Tensor]) -> Tensor:
    """Return the Euclidean norm of all gradients.

    Shape:
        - gradients: tensors `[*]`, each of its parameter's shape.
        - Returns: `[]`.
    """
    # Of a sparse gradient, such as an embedding's, only the rows that are there have a norm.
    return nn.utils.get_total_norm([grad.coalesce().values() if grad.is_sparse else grad for grad in gradients])
