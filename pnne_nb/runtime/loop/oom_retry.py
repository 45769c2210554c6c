"""`OutOfMemoryRetry`: repeats a step that ran out of memory with smaller pieces of its batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor

from pnne_nb.runtime.data.batches import Batch, StandIn, as_batch
from pnne_nb.runtime.faults.oom_recovery import OthersOutOfMemoryError, batch_norms, is_out_of_memory, pieces
from pnne_nb.runtime.loop.active_recipe import ActiveRecipe
from pnne_nb.runtime.loop.loss_weighting import says_reduction
from pnne_nb.runtime.objective.step_logs import Peers
from pnne_nb.telemetry.frames import AnomalyFrame


@final
class OutOfMemoryRetry:
    """Cuts the batches of a step into pieces, and doubles their number after each out-of-memory error.

    Attributes:
        pieces: Number of pieces of each batch.
        updating: Whether the optimizer is at work: a step that fails there is not repeated.
    """

    def __init__(self, active: ActiveRecipe) -> None:
        self.pieces = 1
        self.updating = False
        self._active = active
        self._all_know = False

    def cut(self, group: Sequence[Any]) -> tuple[Sequence[Any], Sequence[int]]:
        """Cut the raw batches of a new step; returns the pieces, and the number of each piece's batch, from 0."""
        self.updating = self._all_know = False
        if self.pieces == 1:
            return group, range(len(group))
        found: list[Any] = []
        of: list[int] = []
        for number, raw in enumerate(group):
            cut = pieces(raw, self.pieces, self._examples(raw))
            if self._peers.count > 1:
                # All processes make equally many passes, whatever their parts of the batch are.
                cut += [StandIn(cut[0])] * (self.pieces - len(cut))
            found += cut
            of += [number] * len(cut)
        return found, of

    def largest(self, error: RuntimeError, raws: Sequence[Any]) -> int:
        """Return the number of examples of the largest piece if smaller ones may help; otherwise raise `error`."""
        if not is_out_of_memory(error):
            raise error
        found = max(map(self._examples, raws))
        if self.updating or not self._can_cut(found):
            raise error
        return found

    def ease(self, largest: int, step: int) -> AnomalyFrame:
        """Double the number of pieces after `step`, for which `largest` examples at once were too many; return a notice of it."""
        recipe = self._active.recipe
        self.pieces *= 2
        recipe.optimizer.zero_grad(set_to_none=True)
        if recipe.device.type != "cpu":
            torch.accelerator.empty_cache()
        unless = "" if says_reduction(recipe) else ", if the loss is a mean over the examples"
        compared = batch_norms(recipe.model)
        if compared:
            listed = f"{', '.join(map(repr, compared[:3]))}{' …' * (len(compared) > 3)}"
            unless += f", except to batch norm ({listed}), which sees the pieces one by one"
        message = (
            f"Out of memory at step {step} with {largest} examples at once: from here on, each batch is "
            f"cut into {self.pieces} pieces whose gradients are added up, so that a step stays the same{unless}."
        )
        hint = "A smaller batch_size, or bf16, saves memory as well."
        return AnomalyFrame(step=step, kind="out-of-memory", message=message, hint=hint)

    def forward_with_peers(self, batch: Batch, forward: Callable[[], tuple[Any, Tensor]]) -> tuple[Any, Tensor]:
        """Run a forward pass of this process's piece with the other processes; if one runs out of memory, it fails in all.

        Shape:
            - forward: returns the output, tensors `[N, ...]` or collections of them, and the loss `[]`.
        """
        peers = self._peers
        peers.present = batch.counts
        if self._active.recipe.in_parts:
            # Each layer needs all processes: one that has failed cannot be waited for.
            return forward()
        made, short = None, ""
        try:
            made = forward()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if isinstance(error, OthersOutOfMemoryError):
                self._all_know = True
                raise
            short = str(error)
        self._all_know = peers.any(made is None)
        if made is None or self._all_know:
            raise torch.OutOfMemoryError(short or "Another process of the group is out of memory.")
        return made

    @property
    def _peers(self) -> Peers:
        return self._active.recipe.peers

    def _examples(self, raw: Any) -> int:
        return as_batch(raw, wants_target=self._active.recipe.compares).examples

    def _can_cut(self, largest: int) -> bool:
        if self._peers.count == 1:
            return largest > 1
        # Of a backward pass that fails in one process, the others do not know: they wait for its gradients.
        return self._all_know and self._peers.any(largest > 1)
