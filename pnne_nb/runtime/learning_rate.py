"""`find_learning_rate`: tries rates from small to large on copies of a training's model, and suggests one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Final, final

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from pnne_nb.compiler.analysis.device_rule import to_device
from pnne_nb.compiler.weights.deepcopy import duplicate
from pnne_nb.errors import ArgumentError, TrainingError, answers_misuse, expect
from pnne_nb.runtime.data.batches import as_batch
from pnne_nb.runtime.data.open_data import require_count
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, TensorSource
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.objective.losses import scores_for_loss, target_for_loss
from pnne_nb.runtime.optim.optimizers import make_optimizer
from pnne_nb.runtime.thread.rng import PrivateRandomness
from pnne_nb.runtime.thread.running_trainings import alone

_SMOOTHED: Final = 0.9
"""Share of the losses before in the smoothed one."""
_DIVERGED: Final = 4.0
"""Times the largest of the first smoothed losses at which a run ends."""
_LEAST: Final = 10
"""Steps that a run makes in any case, and whose losses are where it begins."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class LearningRateSearch:
    """The losses of short trainings whose learning rate grows from step to step, and the rate that they suggest.

    Attributes:
        suggestion: The median over the seeds of the rate at which the smoothed loss has made half of its fall.
        spread: The smallest and the largest of these rates.
        rates: The learning rate of each step.
        losses: The smoothed losses of each seed; shorter than `rates` where the loss has grown without bound.
    """

    suggestion: float
    spread: tuple[float, float]
    rates: NDArray[np.float64]
    losses: tuple[NDArray[np.float64], ...]

    def to_frame(self) -> pd.DataFrame:
        """Return the smoothed losses, a column for each seed, indexed by learning rate."""
        columns = {f"seed {number}": pd.Series(values) for number, values in enumerate(self.losses)}
        return pd.DataFrame(columns).set_index(pd.Index(self.rates[: max(map(len, self.losses))], name="learning_rate"))

    def __repr__(self) -> str:
        low, high = self.spread
        return (
            f"Learning rate {self.suggestion:.2g} ({low:.2g} to {high:.2g} over {len(self.losses)} seeds). "
            f"Write engine.set_optimizer(lr={self.suggestion:.2g})."
        )


@answers_misuse(
    "pn.find_learning_rate(engine)",
    dict.fromkeys(("start_lr", "min_lr"), "low=1e-7"),
    **dict.fromkeys(("end_lr", "max_lr"), "high=10.0"),
    **dict.fromkeys(("num_it", "num_training", "num_iter"), "steps=100"),
)
def find_learning_rate(
    engine: TrainingEngine,
    *,
    low: float = 1e-7,
    high: float = 10.0,
    steps: int = 100,
    seeds: int = 3,
    tell: Callable[[NDArray[np.float64], Sequence[Sequence[float]]], bool] | None = None,
) -> LearningRateSearch:
    """Suggest a learning rate; a running training waits meanwhile, and goes on as if nothing was.

    Copies of the model, each with a new optimizer of the engine's kind and the training data in an order of its own, make
    steps whose learning rate grows from `low` to `high`. The training keeps its weights, optimizer, schedule, place in
    the data, random numbers and history, also where the search fails or is interrupted. `pn.LearningRateFinder` shows it.

    Args:
        engine: The training.
        low: The first rate.
        high: The last rate; a run ends before it where its loss grows to four times that of its first steps.
        steps: Steps of each run.
        seeds: Runs, each with an order of the data of its own.
        tell: Is told of the rates and of the smoothed losses of each seed after each step, and returns whether to go on.

    Raises:
        TrainingError: Only the model or a step function knows how to compare, the data is a stream, or the loss falls at no rate.
        ArgumentError: `engine` is no training, or the rates are not in their order.
    """
    expect(engine, TrainingEngine, "engine", "a TrainingEngine", "pn.TrainingEngine(model, data) makes one.")
    require_count("steps", steps)
    require_count("seeds", seeds)
    if not 0 < low < high:
        raise ArgumentError(f"low={low} and high={high} must be two rates above 0, the smaller one first.")
    if not engine.recipe.compares:
        raise TrainingError(
            "Output and target are compared by the model itself or by a step function, so nothing else can compare them."
        )
    rates = np.geomspace(low, high, steps)
    measured = [list[float]() for _ in range(seeds)]
    with engine.paused() as model:
        runs = ((seed, loss) for seed in range(seeds) for loss in _run(engine, model, rates, seed))
        with closing(runs):
            for seed, loss in runs:
                measured[seed].append(loss)
                if tell is not None and not tell(rates, measured):
                    high = rates[len(measured[0]) - 1]
                    break
    losses = tuple(np.array(values) for values in measured if values)
    found = [rates[place] for values in losses if (place := _halfway(values)) is not None]
    if not found:
        raise TrainingError(
            f"The loss falls at no learning rate from {low:g} to {high:g}, or is not finite. pn.diagnose(engine) may tell why."
        )
    return LearningRateSearch(float(np.median(found)), (float(min(found)), float(max(found))), rates, losses)


def _run(engine: TrainingEngine, model: nn.Module, rates: NDArray[np.float64], seed: int) -> Iterator[float]:
    """Yield the smoothed losses of one run, up to where the loss has grown without bound."""
    recipe, config = engine.recipe, engine.config
    # Random numbers are its own in each step alone, because a cell may draw between two of them.
    numbers = PrivateRandomness(seed, recipe.device)
    mean = highest = 0.0
    with alone(), numbers:
        twin, loss_of = duplicate(model).train(), copy.deepcopy(recipe.loss)
        assert loss_of is not None, "compares"
        optimizer = _optimizer(config.optimizer, twin, config.parameter_groups)
    first = optimizer.param_groups[0]["lr"]
    shares = [group["lr"] / first if first else 1.0 for group in optimizer.param_groups]
    source = _shuffled(recipe.train, seed)
    batches = chain.from_iterable(map(source.batches, count(1)))
    try:
        for number, rate in enumerate(rates):
            for group, share in zip(optimizer.param_groups, shares, strict=True):
                group["lr"] = rate * share
            with alone(), numbers, torch.enable_grad():
                given = as_batch(next(batches), wants_target=True, model=recipe.called)
                inputs, named, wanted = (
                    to_device(part, recipe.device) for part in (given.inputs, given.named, given.target)
                )

                def closure(inputs: Any = inputs, named: Any = named, wanted: Any = wanted) -> Any:
                    optimizer.zero_grad()
                    with recipe.precision.autocast():
                        output = twin(*inputs, **named)
                        target = target_for_loss(loss_of, output, wanted)
                        loss = loss_of(scores_for_loss(loss_of, output, target), target)
                    loss.backward()  # type: ignore[no-untyped-call]  # torch does not say
                    return loss

                loss = float(torch.as_tensor(optimizer.step(closure)).detach())
            mean = _SMOOTHED * mean + (1 - _SMOOTHED) * loss
            value = mean / (1 - _SMOOTHED ** (number + 1))
            if not np.isfinite(value) or (number >= _LEAST and value > _DIVERGED * highest):
                break
            highest = max(highest, value) if number < _LEAST else highest
            yield value
    finally:
        source.close()


def _halfway(losses: NDArray[np.float64]) -> int | None:
    """Return the step at which half of the fall is made, from the level of the first quarter to the minimum; None without one."""
    if len(losses) < 2:
        return None
    lowest = int(losses.argmin())
    level = float(np.median(losses[: max(2, len(losses) // 4)]))
    above = np.flatnonzero(losses[:lowest] > (level + losses[lowest]) / 2)
    return int(above[-1]) + 1 if len(above) else None


def _optimizer(choice: Any, model: nn.Module, groups: Any) -> torch.optim.Optimizer:
    if isinstance(choice, torch.optim.Optimizer):
        return type(choice)([each for each in model.parameters() if each.requires_grad], **choice.defaults)
    return make_optimizer(choice, model, groups)


def _shuffled(source: BatchSource, seed: int) -> BatchSource:
    match source:
        case TensorSource():
            return TensorSource(source.tensors, batch_size=source.batch_size, shuffle=True, seed=seed)
        case DatasetSource():
            return DatasetSource(source.template, shuffle=True, seed=seed)
        case _:
            raise TrainingError(
                "The training data is a stream, which is read only once: give data such as (X, y) to find a learning rate."
            )
