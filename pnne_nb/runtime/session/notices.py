"""`Notices`: why a training failed, and what in it may not be intended."""

from __future__ import annotations

import copy
from typing import final

from torch import Tensor

from pnne_nb.diagnosis.data_rules import data_faults
from pnne_nb.diagnosis.finding import Finding
from pnne_nb.diagnosis.first_step_rules import spread
from pnne_nb.diagnosis.target_sample import baseline_of
from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import as_batch
from pnne_nb.runtime.data.open_data import held_tensors
from pnne_nb.runtime.data.sources import DatasetSource, TensorSource
from pnne_nb.runtime.faults.error_messages import compares_one, model_failed
from pnne_nb.runtime.faults.oom_recovery import batch_norms, is_out_of_memory
from pnne_nb.runtime.loop.fault_replay import NotFiniteError
from pnne_nb.runtime.monitoring.memory_estimate import imagined_batch, shortage, without_memory
from pnne_nb.runtime.monitoring.reporter import Reports
from pnne_nb.runtime.objective.metric_choices import names_of
from pnne_nb.runtime.objective.objective import single_loss
from pnne_nb.runtime.optim.optimizers import left_out
from pnne_nb.runtime.session.execution import Execution
from pnne_nb.runtime.setup.recipe import Recipe
from pnne_nb.telemetry.frames import AnomalyFrame, BaselineFrame, Evidence, StepFrame

_LESS_MEMORY = (
    'Keep less in memory: precision="bf16", checkpoint=True at nodes, an optimizer with less state such as SGD, a '
    "smaller model, or another device."
)


@final
class Notices:
    """Finds problems that deserve a notice, and announces each kind once.

    What a step measures is compared with the goal once in a run; `goal_compared` says that it was, or need not be.
    """

    def __init__(self, execution: Execution, reports: Reports) -> None:
        self._execution = execution
        self._reports = reports
        self._told: set[str] = set()
        self.goal_compared = False

    def renew(self) -> None:
        """Compare the steps' measurements with the goal again in a new run."""
        self.goal_compared = self._execution.loop.recipe.goal.name is None

    def once(self, kind: str, message: str, hint: str, evidence: Evidence = ()) -> None:
        """Announce a notice, unless its kind was announced since `take_back(kind)`."""
        if kind not in self._told:
            self._told.add(kind)
            step = self._execution.executor.steps
            self._reports.announce(AnomalyFrame(step, kind, message, hint=hint, evidence=evidence))

    def take_back(self, kind: str) -> None:
        """Withdraw a notice that is no longer true; it may be announced again."""
        self._told.discard(kind)

    def before_first_step(self) -> None:
        """Check the first example of the data and the model.

        Raises:
            TrainingError: The last batch of an epoch is too small for batch norm.
        """
        loop = self._execution.loop
        if not self._execution.executor.is_group:
            with loop.turn, loop.data_calls:
                require_comparable(loop.recipe)
                found = _found_before(loop.recipe) if loop.steps == 0 else []
                baseline = _baseline(loop.recipe)
            if baseline is not None:
                self._reports.publish([baseline])
            for notice in found:
                self._reports.announce(notice)
        self.of_left_out()

    def of_left_out(self) -> None:
        """Warn about unfrozen or exchanged layers that the optimizer does not train."""
        recipe = self._execution.loop.recipe
        if not (recipe.moves_all and self._execution.executor.knows_model):
            return
        names = left_out(recipe.model, [recipe.optimizer, *recipe.stateful.values()])
        if not names:
            self.take_back("not-trained")
            return
        message = (
            f"{', '.join(names[:3])}{f' and {len(names) - 3} others' * (len(names) > 3)} of the model "
            f"{'is' if len(names) == 1 else 'are'} not trained: since the optimizer was made, parameters were unfrozen or "
            "layers replaced, and it still moves those of then."
        )
        hint = (
            "Make a new engine of the model as it is now, or give them to this one's optimizer: with engine.paused(): "
            'engine.optimizer.add_param_group({"params": [...]}).'
        )
        trainable = sum(1 for one in recipe.model.parameters() if one.requires_grad)
        self.once("not-trained", message, hint, (("not trained", len(names)), ("trainable", trainable)))

    def of_goal(self, frame: StepFrame) -> None:
        """Check the goal against the numbers that a step function or a model records; the first step shows them."""
        self.goal_compared = True
        recipe = self._execution.loop.recipe
        measured = names_of(recipe.metrics)
        if measured is None:
            return
        try:
            recipe.goal.require_measured([*measured, *(frame.logged or ())], validates=recipe.val is not None)
        except TrainingError as error:
            # Some steps may tell more than others.
            hint = "If it is not measured by the end of the epoch either, the training fails then."
            self.once("monitor-unknown", str(error), hint)

    def of_failure(self, error: BaseException, told: str, *, in_step: bool) -> None:
        """Announce why the training failed, if the error alone, `told` in brief, does not say what to do.

        A failure `in_step` came while a step was under way, or its data on the way.
        """
        source = self._execution.executor
        if isinstance(error, NotFiniteError):
            found = error.diagnostics[0]
            self._reports.announce(AnomalyFrame(source.steps + 1, found.code, found.message, found.node, found.hint))
        elif is_out_of_memory(error):
            message = f"Out of memory while {source.doing}, and no smaller pieces of a batch would help: {told}"
            self._reports.announce(AnomalyFrame(source.steps + 1, "out-of-memory", message, hint=_LESS_MEMORY))
            error.add_note(_LESS_MEMORY)
        elif source.fetching and in_step:
            message = f"The data failed while {source.doing}: {told}"
            self._reports.announce(AnomalyFrame(step=source.steps + 1, kind="data-failed", message=message))


def _found_before(recipe: Recipe) -> list[AnomalyFrame]:
    short = shortage(recipe)
    held = held_tensors(recipe.train) if recipe.step is None else None
    loss, _ = single_loss(recipe.loss, None)
    found = data_faults(recipe.model, held, held_tensors(recipe.val), has_target=recipe.compares, loss=loss)
    found += _spread_before(recipe)
    return [*([] if short is None else [short]), *(each.frame(0) for each in found)]


def _baseline(recipe: Recipe) -> BaselineFrame | None:
    """Return what the best constant answer costs, where the targets are in memory."""
    held = held_tensors(recipe.train) if recipe.compares else None
    if not held:
        return None
    loss, target = single_loss(recipe.loss, held[-1:])
    return baseline_of(loss, held[-1] if target is None or loss is recipe.loss else target)


def _spread_before(recipe: Recipe) -> list[Finding]:
    """Return a finding if the loss spreads outputs over targets of other examples, as far as shapes tell before a step."""
    source = recipe.train
    if not recipe.compares or not isinstance(source, TensorSource | DatasetSource):
        return []
    try:
        examples = source.batch_size if isinstance(source, TensorSource) else 2
        batch = as_batch(imagined_batch(source.first(), examples), wants_target=True, model=recipe.called)
        loss, target = single_loss(recipe.loss, batch.target)
        if not isinstance(target, Tensor) or not target.is_floating_point():
            return []  # classes are not spread, and a forward of somebody's own is not run without need
        model = copy.deepcopy(recipe.model, without_memory(recipe.model)).eval()
        return spread(loss, model(*batch.inputs, **batch.named), target)
    except Exception:  # noqa: BLE001  whatever is wrong, a step tells: some models run on numbers only, not on shapes
        return []


def require_comparable(recipe: Recipe) -> None:
    """Raise an error if the last batch is too small for batch norm, as far as the sizes are known.

    Raises:
        TrainingError: It has a single value for each channel; names the layer.
    """
    source = recipe.train
    if recipe.step is not None or not isinstance(source, TensorSource | DatasetSource) or source.last > 1:
        return
    model = copy.deepcopy(recipe.model, without_memory(recipe.model)).train()
    if not batch_norms(model):
        return
    try:
        batch = as_batch(imagined_batch(source.first(), 1), wants_target=recipe.compares, model=recipe.called)
        model(*batch.inputs, **batch.named)
    except Exception as error:
        # Whatever else is wrong, a step tells: some models run on numbers only, not on shapes.
        if compares_one(error):
            explained = model_failed(error, model, batch)
            if isinstance(explained, TrainingError):
                message = f"The last batch of each epoch would have one example: {explained}"
                raise TrainingError(message, explained.diagnostics) from error
