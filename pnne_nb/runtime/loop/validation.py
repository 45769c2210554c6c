"""`Validation`: a pass over the validation data between two steps of a training; `BestWeights`: the best value so far."""

from __future__ import annotations

import copy
import math
from collections.abc import Generator, Mapping
from inspect import GEN_CLOSED, GEN_RUNNING, getgeneratorstate
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import Batch, as_batch
from pnne_nb.runtime.data.sources import BatchSource
from pnne_nb.runtime.data.workers import DataCalls
from pnne_nb.runtime.faults.oom_recovery import is_out_of_memory, pieces
from pnne_nb.runtime.loop.active_recipe import ActiveRecipe
from pnne_nb.runtime.loop.disturbances import Modes
from pnne_nb.runtime.loop.loop_events import Validated
from pnne_nb.runtime.loop.loss_weighting import weight_of
from pnne_nb.runtime.loop.step import forward
from pnne_nb.runtime.objective.metrics import reset, results
from pnne_nb.runtime.objective.objective import Goal
from pnne_nb.runtime.objective.step_logs import Logged, Means
from pnne_nb.runtime.thread.rng import PrivateRandomness
from pnne_nb.runtime.thread.step_lock import StepLock


@final
class Validation:
    """Validates the model of a recipe without changing the training.

    Attributes:
        began_with: The training's random numbers while a pass is under way, else None.
        eased: How many examples were too many for memory, and into how many pieces batches are cut since then; the loop
            takes it out.
    """

    def __init__(
        self, active: ActiveRecipe, modes: Modes, randomness: PrivateRandomness, data_calls: DataCalls, turn: StepLock
    ) -> None:
        self.began_with: dict[str, Any] | None = None
        self.eased: list[tuple[int, int]] = []
        self._active = active
        self._modes = modes
        self._randomness = randomness
        self._data_calls = data_calls
        self._turn = turn
        self._own_eased: list[tuple[int, int]] = []
        self._pieces = 1
        self._under_way: Generator[Validated, None, dict[str, float]] | None = None
        self._found: dict[str, float] | None = None

    def run(self, source: BatchSource) -> Generator[Validated, None, dict[str, float]]:
        """Run one pass, with one event per batch; closing it early leaves no trace.

        Where a pass is under way, because the training halts in the middle of it or has lent the model, this is the
        rest of that pass: the request has its result, and the training then finds the pass made.

        Returns:
            ``"val_loss"`` and the metrics by name.

        Raises:
            TrainingError: It is asked for from inside a pass, by a metric say.
        """
        begins = self._under_way is None
        try:
            while self._found is None:
                # A validation that another caller continued, and that an error or an interrupt ended there, starts again.
                if self._under_way is None or getgeneratorstate(self._under_way) == GEN_CLOSED:
                    self._under_way = self._pass(source)
                if getgeneratorstate(self._under_way) == GEN_RUNNING:
                    raise TrainingError("This is inside a validation already, which would wait for itself.")
                try:
                    validated = next(self._under_way)
                except StopIteration as end:
                    self._found = end.value
                else:
                    yield validated
            return self._found
        finally:
            if begins and self._under_way is not None:
                self._under_way.close()
                self._under_way = self._found = None

    def _pass(self, source: BatchSource) -> Generator[Validated, None, dict[str, float]]:
        active, counting = self._active, self._active.recipe.val_metrics
        reset(counting)
        total, seen, index = 0.0, 0.0, 0
        logged, compared = Means(), False
        self.began_with = self._randomness.state_dict()
        self._modes.set(active.recipe.model, training=False)
        try:
            with self._turn.here(), self._randomness, self._data_calls:
                batches = source.batches(1)
            while True:
                with self._turn.here(), self._randomness, torch.no_grad():
                    with self._data_calls:
                        raw = next(batches, None)
                    if raw is None:
                        break
                    self._modes.restore()
                    judged = self._judged(raw)
                    for batch, output, loss in judged:
                        weight = weight_of(active.recipe, batch)
                        if weight is None:
                            # Sums over the parts of a batch: their mean is one over batches.
                            total, seen = total + loss, seen + 1 / (len(judged) * active.recipe.peers.count)
                        elif weight:
                            total, seen = total + loss * weight, seen + weight
                        compared = active.count(counting, output, batch)
                        if isinstance(output, Logged):
                            logged.add(output.told(), batch.examples)
                index += 1
                yield Validated(index)
            with self._turn.here(), self._randomness:
                found = results(counting, "val") if compared else {}
        finally:
            self._undo()
        total, everywhere = active.recipe.peers.sum([total, seen])
        self._share_eased()
        metrics = {"val_loss": total / everywhere if everywhere else math.nan}
        metrics |= logged.compute(active.recipe.peers, "val_")
        return metrics | found

    def _undo(self) -> None:
        if self.began_with is not None:
            self._modes.set(self._active.recipe.model, training=True)
            self._randomness.load_state_dict(self.began_with)
            self.began_with = None

    def _judged(self, raw: Any) -> list[tuple[Batch, Any, float]]:
        """Return the batch, or its pieces if memory is too small, with outputs and losses; in eval mode, they say the same."""
        recipe = self._active.recipe
        size = as_batch(raw, wants_target=recipe.compares).examples
        while True:
            try:
                return [self._judge(piece) for piece in pieces(raw, self._pieces, size)]
            except RuntimeError as error:
                if not is_out_of_memory(error) or self._pieces >= size or recipe.in_parts:
                    raise
            largest = -(-size // self._pieces)
            self._pieces *= 2
            told = self.eased if recipe.peers.count == 1 else self._own_eased
            told.append((largest, self._pieces))

    def _share_eased(self) -> None:
        """Share out-of-memory retries among the processes of a group after the pass, so that all have the same events."""
        peers = self._active.recipe.peers
        if peers.count == 1:
            return
        largest, pieces_of_one = self._own_eased[-1] if self._own_eased else (0, 0)
        self._own_eased.clear()
        # Where it were several, they have much the same parts of the batches: the mean of them is told.
        count, examples, cut_into = peers.sum([float(largest > 0), largest, pieces_of_one])
        if count:
            self.eased.append((round(examples / count), round(cut_into / count)))

    def _judge(self, raw: Any) -> tuple[Batch, Any, float]:
        batch = self._active.prepare(raw)
        output, loss = forward(self._active.recipe, raw, batch)
        return batch, output, loss.item()


_NUMBERS: Final = ("best", "best_epoch", "best_step", "judged_epoch", "epochs_since_best")


@final
class BestWeights:
    """The best value of the goal so far, for early stopping, ``best.ckpt`` and the best weights.

    Attributes:
        best: The least cost so far, see `Goal`.
        best_epoch: When that was, from 1; 0 before anything was judged.
        best_step: The step after which the model had the best weights, also those put back; -1 before.
        judged_epoch: The last epoch that had the number that counts.
        epochs_since_best: Epochs since then that had it.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start again, because the model has changed."""
        self.best = math.inf
        self.best_epoch, self.best_step = 0, -1
        self.judged_epoch = 0
        self.epochs_since_best = 0
        self._weights: dict[str, Any] | None = None

    def judge(self, cost: float | None, goal: Goal, epoch: int, step: int, model: nn.Module | None) -> bool:
        """Record the goal's value; return whether it is an improvement.

        Args:
            cost: None where it was not measured.
            goal: Says how much better is an improvement.
            epoch: Under way, from 1.
            step: The last one that was made.
            model: Whose weights are kept if they are the best; None keeps none.
        """
        if cost is None:
            return False
        self.judged_epoch = epoch
        if not cost < self.best - goal.min_delta:
            return False
        self.best, self.best_epoch, self.best_step = cost, epoch, step
        if model is not None:
            self._weights = {name: _copied(value) for name, value in model.state_dict().items()}
        return True

    def end_epoch(self, epoch: int) -> None:
        """Count the epochs without an improvement."""
        if self.best_epoch == epoch:
            self.epochs_since_best = 0
        elif self.judged_epoch == epoch:
            self.epochs_since_best += 1

    def renamed(self, former: Mapping[str, str]) -> None:
        """Rename the kept tensors of a model that computes the same."""
        if self._weights is not None:
            self._weights = {now: self._weights[before] for now, before in former.items() if before in self._weights}

    def restore(self, model: nn.Module, step: int) -> bool:
        """Restore the best weights in `model` after the last step; return False if none were kept."""
        self.best_step = step
        if self._weights is None:
            return False
        model.load_state_dict(self._weights)
        return True

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self._weights, **{name: getattr(self, name) for name in _NUMBERS}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in _NUMBERS:
            setattr(self, name, state[name])
        self._weights = state["weights"]


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value)
