"""From a raw batch to the model's output and its loss, in training as in validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor

from pnne_nb.errors import TrainingError
from pnne_nb.runtime.batches import Batch, StandIn, as_batch, expect_shapes, to_device
from pnne_nb.runtime.failures import loss_failed, metric_failed, model_failed, name_layer
from pnne_nb.runtime.logged import Logged, StepFunction, read, scalar
from pnne_nb.runtime.metrics import Metric, target_for
from pnne_nb.runtime.recipe import Recipe
from pnne_nb.runtime.sources import TensorSource
from pnne_nb.runtime.weighing import REDUCTIONS, Reduction, is_known, tried


@final
class ForwardPass:
    """Runs the model of a recipe on batches.

    Attributes:
        recipe: What it follows; see `adopt`.
        reduction: What the loss makes of its examples, where that has to be known and was found out; see `weighing`.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.reduction: Reduction | None = None
        self._shapes_seen: set[tuple[Any, ...]] = set()
        # Made once: making one takes as long as entering it.
        self._without_gradients = torch.no_grad()

    def check_data(self) -> None:
        """Compare data in memory with the graph's Input nodes before anything is done.

        Raises:
            TrainingError: It does not fit; other data is compared when it comes.
        """
        for source in (self.recipe.train, self.recipe.val):
            if isinstance(source, TensorSource):
                self.prepare(source.first())

    def adopt(self, recipe: Recipe) -> None:
        """Go on by another recipe; on an error, by the old one.

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
        if recipe.loss is not before.loss:
            self.reduction = None

    def prepare(self, raw: Any) -> Batch:
        """The batch on the device, compared with what the Input nodes expect.

        Raises:
            TrainingError: It does not fit, or has no target.
        """
        recipe = self.recipe
        batch = as_batch(raw, wants_target=recipe.compares)
        if recipe.expected and recipe.step is None:
            # What a step function makes of a batch, it knows itself.
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
            batch.counts,
        )

    def run(self, raw: Any, batch: Batch) -> tuple[Any, Tensor]:
        """Output and loss of a batch; where there is no loss to compare by, what was told beside it, see `logged`.

        Raises:
            TrainingError: The loss is not one number.
        """
        recipe = self.recipe
        with recipe.precision.autocast():
            if recipe.step is not None:
                given = raw.raw if isinstance(raw, StandIn) else raw
                return read(self._stepped(recipe.step, to_device(given, recipe.device)), "The step function")
            output = self._output(batch)
            if recipe.scattered:
                output = to_device(output, recipe.device)
            if recipe.loss is None:
                return read(output, "Without a loss, the model must return its own: it")
            return output, scalar(self._loss(recipe.loss, output, batch.target), "The loss function")

    def _stepped(self, step: StepFunction, given: Any) -> Any:
        model = self.recipe.model
        try:
            return step(model, given)
        except Exception as error:
            name_layer(error, model)
            raise

    def _output(self, batch: Batch) -> Any:
        recipe = self.recipe
        runs = recipe.trained if recipe.trained is not None and torch.is_grad_enabled() else recipe.model
        try:
            return runs(*batch.inputs, **batch.named)
        except Exception as error:
            explained = model_failed(error, recipe.model, batch)
            if explained is None:
                name_layer(error, recipe.model)
                raise
            raise explained from error

    @staticmethod
    def _loss(loss: Callable[[Any, Any], Tensor], output: Any, target: Any) -> Any:
        try:
            return loss(output, target)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            explained = loss_failed(error, loss, output, target)
            if explained is None:
                raise
            raise explained from error

    def find_reduction(self, output: Any, batch: Batch, value: float) -> bool:
        """Find out what the loss of a part makes of its examples, unless that is known; all processes ask together.

        Args:
            output: Of the model, for the part `batch`.
            batch: May have no examples that count.
            value: Its loss.

        Returns:
            Whether it was found out just now.
        """
        recipe = self.recipe
        if self.reduction is not None or is_known(recipe):
            return False
        found = tried(recipe, output, batch, value) if batch.counts else None
        votes = recipe.peers.sum([float(found == kind) for kind in REDUCTIONS])
        agreed = [kind for kind, count in zip(REDUCTIONS, votes, strict=True) if count]
        if agreed:
            self.reduction = agreed[0] if len(agreed) == 1 else "other"
        return bool(agreed)

    def count(self, metrics: dict[str, Metric], output: Any, batch: Batch) -> bool:
        """Let `metrics` take a batch into account; returns whether there is anything that they can compare."""
        target = batch.target
        if not self.recipe.compares:
            if not isinstance(output, Logged) or output.output is None:
                return False
            output, target = output.output, output.target
        if batch.counts and metrics:
            with self._without_gradients:
                for name, metric in metrics.items():
                    try:
                        metric.update(output, target_for(metric, target))
                    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError) as error:
                        explained = metric_failed(error, name, output, target)
                        if explained is None:
                            raise
                        raise explained from error
        return True
