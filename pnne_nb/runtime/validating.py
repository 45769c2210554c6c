"""A pass over the validation data, between two steps of a training."""

from __future__ import annotations

import math
from collections.abc import Generator
from inspect import GEN_CLOSED, GEN_RUNNING, getgeneratorstate
from typing import Any, final

import msgspec
import torch

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.batches import Batch, as_batch
from pnne_nb.runtime.easing import is_out_of_memory, pieces
from pnne_nb.runtime.forward import ForwardPass
from pnne_nb.runtime.logged import Logged, Means
from pnne_nb.runtime.metrics import results
from pnne_nb.runtime.modes import Modes
from pnne_nb.runtime.randomness import PrivateRandomness
from pnne_nb.runtime.sources import Source
from pnne_nb.runtime.turn import turn
from pnne_nb.runtime.weighing import weight_of


class Validated(msgspec.Struct, frozen=True, tag=True):
    """One batch of the validation data was looked at.

    Attributes:
        batch: Which, from 1.
    """

    batch: int


@final
class Validation:
    """Validates the model of a recipe; the training is as before it.

    Attributes:
        began_with: The training's random numbers while a pass is under way, else None.
        eased: How many examples were too many for memory, and into how many pieces batches are cut since then, until
            somebody takes it out.
    """

    def __init__(self, forward: ForwardPass, modes: Modes, randomness: PrivateRandomness) -> None:
        self.began_with: dict[str, Any] | None = None
        self.eased: list[tuple[int, int]] = []
        self._forward = forward
        self._modes = modes
        self._randomness = randomness
        self._own_eased: list[tuple[int, int]] = []
        self._pieces = 1
        self._under_way: Generator[Validated, None, dict[str, float]] | None = None
        self._found: dict[str, float] | None = None

    def run(self, source: Source) -> Generator[Validated, None, dict[str, float]]:
        """One pass, an event a batch; closed in the middle, it has never been.

        Where a pass is under way, because the training halts in the middle of it or has lent the model, this is the
        rest of that: whoever asks for a validation then has the result, and whoever has begun it finds it made.

        Returns:
            ``"val_loss"`` and the metrics by name.

        Raises:
            TrainingError: It is asked for from inside of a pass, by a metric say.
        """
        begins = self._under_way is None
        try:
            while self._found is None:
                # One that was carried on by somebody else, and ended there by an error or an interrupt, begins anew.
                if self._under_way is None or getgeneratorstate(self._under_way) == GEN_CLOSED:
                    self._under_way = self._pass(source)
                if getgeneratorstate(self._under_way) == GEN_RUNNING:
                    raise TrainingError("This is inside of a validation already, which would wait for itself.")
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

    def _pass(self, source: Source) -> Generator[Validated, None, dict[str, float]]:
        forward, counting = self._forward, self._forward.recipe.val_metrics
        for metric in counting.values():
            metric.reset()
        total, seen, index = 0.0, 0.0, 0
        logged, compared = Means(), False
        self.began_with = self._randomness.state_dict()
        self._modes.set(forward.recipe.model, training=False)
        try:
            with turn, self._randomness:
                batches = source.batches(1)
            while True:
                with turn, self._randomness, torch.no_grad():
                    raw = next(batches, None)
                    if raw is None:
                        break
                    self._modes.restore()
                    judged = self._judged(raw)
                    parted = len(judged) > 1 or forward.recipe.peers.count > 1
                    if parted:
                        forward.find_reduction(judged[0][1], judged[0][0], judged[0][2])
                    whole = self._examples(judged) if forward.reduction == "sum" else 0.0
                    for batch, output, loss in judged:
                        weight = weight_of(forward.recipe, batch, forward.reduction)
                        if weight is None and whole:
                            # As a sum counts where there are no parts.
                            total, seen = total + loss * whole, seen + batch.examples
                        elif weight is None:
                            # Sums over the parts of a batch: their mean is one over batches.
                            total, seen = total + loss, seen + 1 / (len(judged) * forward.recipe.peers.count)
                        elif weight:
                            total, seen = total + loss * weight, seen + weight
                        compared = forward.count(counting, output, batch)
                        if isinstance(output, Logged):
                            logged.add(output.told(), batch.examples)
                index += 1
                yield Validated(index)
        finally:
            self._modes.set(forward.recipe.model, training=True)
            self._randomness.load_state_dict(self.began_with)
            self.began_with = None
        total, everywhere = forward.recipe.peers.sum([total, seen])
        self._share_eased()
        metrics = {"val_loss": total / everywhere if everywhere else math.nan}
        metrics |= logged.compute(forward.recipe.peers, "val_")
        if compared:
            metrics |= results(counting, "val")
        return metrics

    def _examples(self, judged: list[tuple[Batch, Any, float]]) -> float:
        """Of a whole batch, in all processes."""
        return self._forward.recipe.peers.sum([float(sum(batch.examples for batch, _, _ in judged if batch.counts))])[0]

    def _judged(self, raw: Any) -> list[tuple[Batch, Any, float]]:
        """The batch, or where memory is too small for it the pieces of it, with outputs and losses.

        In eval mode, the pieces of a batch say what it would have said.
        """
        recipe = self._forward.recipe
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
        """In a group, whatever one process has met is an event of all, after the pass: each goes by as many as the others."""
        peers = self._forward.recipe.peers
        if peers.count == 1:
            return
        largest, pieces_of_one = self._own_eased[-1] if self._own_eased else (0, 0)
        self._own_eased.clear()
        # Where it were several, they have much the same parts of the batches: the mean of them is told.
        count, examples, cut_into = peers.sum([float(largest > 0), largest, pieces_of_one])
        if count:
            self.eased.append((round(examples / count), round(cut_into / count)))

    def _judge(self, raw: Any) -> tuple[Batch, Any, float]:
        batch = self._forward.prepare(raw)
        output, loss = self._forward.run(raw, batch)
        return batch, output, loss.item()
