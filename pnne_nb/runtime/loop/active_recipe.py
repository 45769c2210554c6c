"""`ActiveRecipe`: the current recipe of a loop, which prepares batches and counts them in metrics."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from pnne_nb.compiler.analysis.device_rule import to_device
from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import Batch, as_batch, expect_shapes
from pnne_nb.runtime.data.sources import TensorSource
from pnne_nb.runtime.faults.error_messages import metric_failed
from pnne_nb.runtime.objective.losses import class_span, target_for_loss
from pnne_nb.runtime.objective.metrics import Accuracy, Metric, target_for
from pnne_nb.runtime.objective.objective import comparing_layer
from pnne_nb.runtime.objective.step_logs import Logged
from pnne_nb.runtime.setup.recipe import Recipe


@final
class ActiveRecipe:
    """The current recipe, which `adopt` exchanges; it prepares batches for its model and counts them in its metrics."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._shapes_seen: set[tuple[Any, ...]] = set()
        self._span: tuple[int, int] | None = None
        # Made once: making one takes as long as entering it.
        self._without_gradients = torch.no_grad()

    def check_data(self) -> None:
        """Compare data in memory with the graph's Input nodes before the first step.

        Raises:
            TrainingError: It does not fit; other data is compared when it comes.
        """
        self._span = None
        for source in (self.recipe.train, self.recipe.val):
            if isinstance(source, TensorSource):
                self.prepare(source.first())
                self._add_classes(source)

    def _add_classes(self, source: TensorSource) -> None:
        """Look at all targets in memory once: of batches that are on the device, nobody could look without waiting for it."""
        recipe = self.recipe
        if recipe.device.type != "cpu" and recipe.compares:
            found = class_span(comparing_layer(recipe.loss), source.tensors[-1])
            both = [span for span in (self._span, found) if span is not None]
            self._span = (min(low for low, _ in both), max(high for _, high in both)) if both else None

    def adopt(self, recipe: Recipe) -> None:
        """Replace the recipe; after an error, the old one stays.

        Raises:
            TrainingError: Data in memory does not fit what the new recipe expects.
        """
        before, self.recipe = self.recipe, recipe
        seen, self._shapes_seen = self._shapes_seen, set()
        try:
            self.check_data()
        except TrainingError:
            self.recipe, self._shapes_seen = before, seen
            raise

    def prepare(self, raw: Any) -> Batch:
        """Move a raw batch to the device, after a comparison with the graph's Input nodes.

        Shape:
            - raw: tensors `[N, ...]`, N examples, in sequences and mappings.

        Raises:
            TrainingError: It does not fit, or has no target.
        """
        recipe = self.recipe
        batch = as_batch(raw, wants_target=recipe.compares, model=recipe.called)
        if recipe.expected and recipe.step is None:
            # What a step function makes of a batch, it knows itself.
            shapes = tuple(value.shape if isinstance(value, Tensor) else None for value in batch.inputs)
            if batch.named or shapes not in self._shapes_seen:
                expect_shapes(batch, recipe.expected)
                self._shapes_seen.add(shapes)
        if recipe.device.type == "cpu":
            return batch
        target = batch.target
        compared = target[0] if isinstance(target, tuple) and len(target) == 1 else target
        is_here = isinstance(compared, Tensor) and compared.is_cpu
        span = class_span(comparing_layer(recipe.loss), compared) if is_here else self._span
        return Batch(
            to_device(batch.inputs, recipe.device),
            to_device(batch.named, recipe.device),
            to_device(target, recipe.device),
            batch.examples,
            batch.counts,
            span,
        )

    def count(self, metrics: dict[str, Metric], output: Any, batch: Batch) -> bool:
        """Let `metrics` take a batch into account; return whether there is an output to compare with a target.

        Args:
            metrics: By name.
            output: Of the model: tensors `[N, ...]`, or collections of them; of a step function, a `Logged`.
            batch: Has the target, likewise.
        """
        target = target_for_loss(self.recipe.loss, output, batch.target)
        if not self.recipe.compares:
            if not isinstance(output, Logged) or output.output is None:
                return False
            output, target = output.output, output.target
        for name, metric in metrics.items() if batch.counts else ():
            try:
                if type(metric) is Accuracy:  # whether a prediction is right has no gradient
                    metric.update(output, target)
                else:
                    with self._without_gradients:
                        metric.update(output, target_for(metric, target))
            except Exception as error:
                explained = metric_failed(error, name, output, target)
                if explained is None:
                    raise
                raise explained from error
        return True
