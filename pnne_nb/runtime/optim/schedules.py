"""Makes learning rate schedulers from names, factories or instances."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec
import torch
from torch.optim.lr_scheduler import ChainedScheduler, LRScheduler, OneCycleLR, ReduceLROnPlateau, SequentialLR

from pnne_nb.catalog.training_nodes import PER_STEP
from pnne_nb.errors import TrainingError, shown
from pnne_nb.runtime.optim.resolve import Options, build, classes

_MADE_OF_OTHERS = {
    "ChainedScheduler": "ChainedScheduler([ConstantLR(optimizer), ExponentialLR(optimizer, 0.9)])",
    "SequentialLR": "SequentialLR(optimizer, [LinearLR(optimizer), CosineAnnealingLR(optimizer, 20)], milestones=[5])",
}
SchedulerMade: TypeAlias = "str | type | LRScheduler | Callable[[torch.optim.Optimizer], LRScheduler]"
SchedulerChoice: TypeAlias = (
    "SchedulerMade | tuple[str | type, Options] | tuple[str | type, Options, Interval] | "
    "tuple[SchedulerMade, Interval] | None"
)
Interval: TypeAlias = Literal["epoch", "step"]

SCHEDULERS: dict[str, type] = classes(
    torch.optim.lr_scheduler, LRScheduler, exclude=frozenset({"LRScheduler", "_LRScheduler"})
)


class Schedule(msgspec.Struct, frozen=True):
    """A scheduler, and whether it moves after each optimizer step or after each epoch."""

    scheduler: LRScheduler
    every: Interval

    def advance(self, every: Interval, loss: float | None) -> None:
        """Step the scheduler if it moves after what has ended; a plateau is one of the `loss`, None if that was not measured.

        Raises:
            TrainingError: The scheduler has come to its end.
        """
        if self.every != every:
            return
        match self.scheduler:
            case ReduceLROnPlateau() as plateau:
                # An epoch that was not validated says nothing about a plateau.
                if loss is not None:
                    plateau.step(loss)
            case scheduler:
                try:
                    scheduler.step()
                except ValueError as error:
                    raise TrainingError(
                        f"The scheduler {type(scheduler).__name__} cannot move: {error}. Where it was made for fewer steps "
                        "than there are, make a new engine, with more epochs."
                    ) from error

    def copied(self) -> Schedule:
        """Return a copy for a dummy optimizer with the same parameters."""
        optimizer = self.scheduler.optimizer
        other = object.__new__(type(optimizer))
        groups = [
            {name: value if name == "params" else copy.deepcopy(value) for name, value in group.items()}
            for group in optimizer.param_groups
        ]
        # A scheduler that moves before the first step would warn.
        vars(other).update(vars(optimizer), param_groups=groups, _opt_called=True)
        return Schedule(copy.deepcopy(self.scheduler, {id(optimizer): other}), self.every)

    def replaces(self, option: str, value: Any) -> str:
        """Explain an option that lasts only until the scheduler moves."""
        kind = type(self.scheduler).__name__
        what = f"{kind} sets {option} itself after every {self.every}, so that {value!r} would soon be gone: "
        if option == "lr":
            return (
                f"{what}the rate is 0 now, or the schedule does not multiply it. Set it when the schedule has moved on, or make "
                "a new engine with another rate or scheduler."
            )
        if getattr(self.scheduler, "cycle_momentum", False):
            return f"{what}make a new engine with cycle_momentum=False for {kind}, and set it then."
        return f"{what}make a new engine with another scheduler."


def make_schedule(
    choice: SchedulerChoice, optimizer: torch.optim.Optimizer, *, total_steps: int | None, more: bool = False
) -> Schedule | None:
    """Return the scheduler for `choice`.

    Args:
        choice: A name, a name with arguments, a function of the optimizer, or a scheduler; in front of ``"epoch"`` or
            ``"step"`` to say when it moves.
        optimizer: Whose learning rates it moves.
        total_steps: Optimizer steps of the whole training, which OneCycleLR gets unless told otherwise.
        more: Whether more is better of what the training is judged by, and so a plateau, unless told otherwise.

    Raises:
        TrainingError: Unknown name or interval, or wrong arguments.
    """
    every: Interval | None = None
    what: Any = choice
    match choice:
        case (*given, ("epoch" | "step") as last):
            what, every = given[0] if len(given) == 1 else tuple(given), last
    match what:
        case None:
            return None
        case LRScheduler():
            made: LRScheduler = what
        case (str() | type()) as name:
            made = _scheduler(name, {}, optimizer, total_steps, more=more and every != "step")
        case (str() | type() as name, Mapping() as options):
            made = _scheduler(name, options, optimizer, total_steps, more=more and every != "step")
        case _ if callable(what):
            made = what(optimizer)
        case _:
            raise TrainingError(
                f'scheduler cannot be {shown(choice)}. Give a name such as "CosineAnnealingLR", a pair such as '
                f'("StepLR", {{"step_size": 3}}), a scheduler, or a function that makes one from the optimizer; with '
                '"step" behind it to move it after every step, as in ("StepLR", {"step_size": 300}, "step").'
            )
    if not isinstance(made, LRScheduler):
        raise TrainingError(f"The scheduler's function returned a {type(made).__name__}, not a scheduler.")
    if made.optimizer is not optimizer:
        raise TrainingError(
            f"The scheduler {type(made).__name__} moves the rates of another optimizer than the one that trains: give a "
            "function that makes it, as in scheduler=lambda optimizer: StepLR(optimizer, 3), or both ready made."
        )
    default: Interval = "step" if type(made).__name__ in PER_STEP else "epoch"
    return Schedule(made, every or default)


def _scheduler(
    name: str | type, options: Options, optimizer: torch.optim.Optimizer, total_steps: int | None, *, more: bool
) -> LRScheduler:
    made_by = SCHEDULERS.get(name) if isinstance(name, str) else name
    if made_by in (ChainedScheduler, SequentialLR):
        kind = made_by.__name__
        raise TrainingError(
            f"{kind} is made of other schedulers, which need the optimizer: give a function that makes it, such as "
            f"scheduler=lambda optimizer: {_MADE_OF_OTHERS[kind]}."
        )
    counted = {"total_steps", "epochs", "steps_per_epoch"} & set(options)
    if name in ("OneCycleLR", OneCycleLR) and not counted and total_steps is not None:
        options = {**options, "total_steps": total_steps}
    if made_by is ReduceLROnPlateau and more:
        # Torch waits for a number that falls.
        options = {"mode": "max", **options}
    made: LRScheduler = build("scheduler", SCHEDULERS, name, options, optimizer)
    return made


def rescale(schedule: Schedule | None, group: int, factor: float) -> None:
    """Let a schedule go on from a learning rate of a parameter group that was set by hand to `factor` times the old one."""
    if schedule is None:
        return
    options = schedule.scheduler.optimizer.param_groups[group]
    options.update({name: options[name] * factor for name in ("initial_lr", "max_lr", "min_lr") if name in options})
    several: Any = getattr(schedule.scheduler, "_schedulers", [schedule.scheduler])
    for each in several:
        for rates in (getattr(each, "base_lrs", None), getattr(each, "max_lrs", None)):
            if rates is not None:
                rates[group] *= factor
