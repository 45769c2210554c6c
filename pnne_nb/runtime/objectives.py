"""What training aims at and how: losses, optimizers and schedulers by name, by factory, or ready made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from types import NoneType
from typing import Any, Literal, TypeAlias

import msgspec
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR

from pnne_nb.catalog.optimizers import PER_STEP
from pnne_nb.errors import TrainingError, expect, near, shown

Options: TypeAlias = Mapping[str, Any]
Loss: TypeAlias = "str | tuple[str | type, Options] | type[nn.Module] | Callable[[Any, Any], Tensor] | None"
OptimizerChoice: TypeAlias = (
    "str | tuple[str | type, Options] | torch.optim.Optimizer | Callable[[Iterable[Any]], torch.optim.Optimizer]"
)
SchedulerMade: TypeAlias = "str | type | LRScheduler | Callable[[torch.optim.Optimizer], LRScheduler]"
SchedulerChoice: TypeAlias = (
    "SchedulerMade | tuple[str | type, Options] | tuple[str | type, Options, Interval] | "
    "tuple[SchedulerMade, Interval] | None"
)
Interval: TypeAlias = Literal["epoch", "step"]

Asked: TypeAlias = tuple[Any, Mapping[str, Options]]
"""An optimizer by its name, alone or with options, and the options of its parameter groups by pattern."""

class Schedule(msgspec.Struct, frozen=True):
    """A scheduler and when it moves.

    Attributes:
        scheduler: Torch's scheduler.
        every: Whether it moves after each optimizer step or after each epoch.
    """

    scheduler: LRScheduler
    every: Interval


def _classes(module: Any, base: type, *, exclude: frozenset[str] = frozenset()) -> dict[str, type]:
    found = {name: value for name, value in vars(module).items() if inspect.isclass(value) and issubclass(value, base)}
    return {name: value for name, value in found.items() if name[0].isupper() and name not in exclude}


LOSSES: dict[str, type] = {name: value for name, value in _classes(nn, nn.Module).items() if name.endswith("Loss")}
OPTIMIZERS: dict[str, type] = _classes(torch.optim, torch.optim.Optimizer, exclude=frozenset({"Optimizer"}))
SCHEDULERS: dict[str, type] = _classes(
    torch.optim.lr_scheduler, LRScheduler, exclude=frozenset({"LRScheduler", "_LRScheduler"})
)


def make_loss(loss: Loss) -> Callable[[Any, Any], Tensor] | None:
    """The loss function that `loss` stands for; None if the model returns its own loss.

    Raises:
        TrainingError: Unknown name, wrong arguments, or something that is no loss.
    """
    match loss:
        case None:
            return None
        case (str() | type()) as name:
            made: Callable[[Any, Any], Tensor] = _build("loss", LOSSES, name, {})
        case (str() | type() as name, Mapping() as options):
            made = _build("loss", LOSSES, name, _with_tensors(options))
        case _ if callable(loss):
            made = loss
        case _:
            raise TrainingError(
                f'loss cannot be {shown(loss)}. Give a name such as "CrossEntropyLoss", a pair such as '
                f'("CrossEntropyLoss", {{"label_smoothing": 0.1}}), or a function of output and target.'
            )
    return made


def _with_tensors(options: Options) -> Options:
    """The same, with the weights of classes as tensors; typed in as numbers, a checkpoint can hold them."""
    given = {name: options[name] for name in ("weight", "pos_weight") if isinstance(options.get(name), (list, tuple))}
    return {**options, **{name: torch.tensor(value, dtype=torch.float32) for name, value in given.items()}}


def require_trained(loss: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Insist that `optimizer` moves whatever `loss` has to learn.

    Raises:
        TrainingError: It does not; the message names the parameters.
    """
    moved = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    left = [name for name, one in loss.named_parameters() if one.requires_grad and id(one) not in moved]
    if left:
        raise TrainingError(
            f"The loss {type(loss).__name__} has parameters of its own ({', '.join(left)}), which the optimizer does not "
            "move. Make it a layer of the model, which then takes the target too and returns the loss (loss=None)."
        )


def has_state_of_its_own(loss: nn.Module) -> bool:
    """Whether `loss` may change while it trains; what torch's own losses hold are settings."""
    return not type(loss).__module__.startswith("torch.") and bool(loss.state_dict())


def make_optimizer(
    choice: OptimizerChoice, model: nn.Module, groups: Mapping[str, Options] | None = None
) -> torch.optim.Optimizer:
    """The optimizer that `choice` stands for, over the model's trainable parameters.

    Args:
        choice: A name, a name with arguments, a function of the parameters, or a ready optimizer.
        model: Whose parameters it moves.
        groups: Options for parameters whose name fits a pattern such as ``"*.bias"``; the first that fits counts.

    Raises:
        TrainingError: Unknown name, wrong arguments, a pattern without a parameter, or nothing to train.
    """
    if isinstance(choice, torch.optim.Optimizer):
        if groups:
            raise TrainingError(
                "An optimizer that is ready made has its groups already: give parameter_groups with a name such as "
                '("AdamW", {"lr": 1e-3}), or make the groups where you make the optimizer.'
            )
        return choice
    expect(groups, (Mapping, NoneType), "parameter_groups", 'options by pattern, such as {"*.bias": {"lr": 1e-2}}')
    parameters = parameter_groups(model, groups or {})
    match choice:
        case (str() | type()) as name:
            made: torch.optim.Optimizer = _build("optimizer", OPTIMIZERS, name, {}, parameters)
        case (str() | type() as name, Mapping() as options):
            made = _build("optimizer", OPTIMIZERS, name, options, parameters)
        case _ if callable(choice):
            made = choice(parameters)
        case _:
            raise TrainingError(
                f'optimizer cannot be {shown(choice)}. Give a name such as "AdamW", a pair such as '
                f'("AdamW", {{"lr": 1e-3}}), or a function that makes one from the parameters.'
            )
    if not isinstance(made, torch.optim.Optimizer):
        raise TrainingError(f"The optimizer's function returned a {type(made).__name__}, not an optimizer.")
    for options in (made.defaults, *(groups or {}).values()):
        _require_finite(options)
    for options in (groups or {}).values():
        _require_options(made, options)
    return made


def set_options(
    optimizer: torch.optim.Optimizer, schedule: Schedule | None, options: Options, group: int | None = None
) -> None:
    """Set options such as ``lr`` in every parameter group, or in one; `schedule` goes on from there.

    Raises:
        TrainingError: The optimizer has no such option or group, or refuses the value; then nothing has changed.
    """
    count = len(optimizer.param_groups)
    if group is not None and group not in range(count):
        raise TrainingError(f"There is no parameter group {shown(group)}; there are {count}, numbered from 0.")
    known = [name for name in optimizer.param_groups[0] if name != "params"]
    for name in options:
        if name not in known:
            raise TrainingError(
                f"{type(optimizer).__name__} has no option {name!r}; it has {', '.join(known)}.{near(name, known)}"
            )
    _require_finite(options)
    _require_options(optimizer, options)
    for number in range(count) if group is None else (group,):
        set_group_options(optimizer, schedule, number, options)


def changed_options(
    optimizer: torch.optim.Optimizer, schedule: Schedule | None, before: Asked, now: Asked
) -> list[dict[str, Any]]:
    """For each parameter group, the options that are asked for differently now; what was set otherwise stays.

    A schedule begins with the learning rate that is asked for: where there is one, the present rate changes in
    proportion.

    Args:
        optimizer: Under way.
        schedule: Of its learning rates, or None.
        before: Its name and options, and its parameter groups.
        now: Likewise.

    Raises:
        TrainingError: It is another optimizer, or the groups are others.
    """
    (kind, old), (other, new) = _named(before[0]), _named(now[0])
    if kind != other or list(before[1]) != list(now[1]):
        raise TrainingError(
            "The optimizer of a training under way cannot be another one, nor its groups: undo that, or make a new "
            "engine."
        )
    groups = optimizer.param_groups
    unnamed: list[Options] = [{}] * (len(groups) - len(before[1]))
    defaults = {name: one.default for name, one in inspect.signature(type(optimizer)).parameters.items()}
    changed = []
    for group, first, second in zip(groups, [*unnamed, *before[1].values()], [*unnamed, *now[1].values()], strict=True):
        was, becomes = {**defaults, **old, **first}, {**defaults, **new, **second}
        changes = {name: value for name, value in becomes.items() if name in group and was.get(name) != value}
        if "lr" in changes and schedule is not None and was["lr"]:
            changes["lr"] *= float(group["lr"]) / was["lr"]
        changed.append(changes)
    return changed


def _named(choice: Any) -> tuple[str, Options]:
    name, options = (choice, {}) if isinstance(choice, str) else choice
    return name, options


def set_group_options(
    optimizer: torch.optim.Optimizer, schedule: Schedule | None, number: int, options: Options
) -> None:
    """Set options of the parameter group `number`, which the optimizer has; `schedule` goes on from there."""
    group = optimizer.param_groups[number]
    before = float(group["lr"])
    group.update(options)
    if before and "lr" in options:
        _rescale(schedule, number, float(group["lr"]) / before)


def _require_finite(options: Options) -> None:
    # Torch asks whether a rate is negative, and NaN is not.
    for name in ("lr", "weight_decay", "momentum"):
        value = options.get(name, 0.0)
        if isinstance(value, (float, Tensor)) and not bool(torch.as_tensor(value).isfinite().all()):
            raise TrainingError(f"{name} must be a finite number, not {shown(value)}.")


def _require_options(optimizer: torch.optim.Optimizer, options: Options) -> None:
    """Insist on what one of torch's optimizers would take when it is made; of another's options, nothing is known.

    Raises:
        TrainingError: An option is unknown, or has a value that cannot be.
    """
    made_by = type(optimizer)
    if made_by not in OPTIMIZERS.values():
        return
    # A group may hold more than the arguments have names for.
    taken = [name for name in inspect.signature(made_by).parameters if name != "params"]
    known = {name: value for name, value in options.items() if name in taken or name not in optimizer.defaults}
    _call("optimizer", made_by.__name__, made_by, ([nn.Parameter(torch.zeros(1, 1))],), known)


def _rescale(schedule: Schedule | None, group: int, factor: float) -> None:
    """Let a schedule go on from a learning rate that somebody has set.

    Args:
        schedule: May count from the rate that it began with, or from the greatest.
        group: Number of the optimizer's parameter group.
        factor: New rate by old.
    """
    if schedule is None:
        return
    options = schedule.scheduler.optimizer.param_groups[group]
    options.update({name: options[name] * factor for name in ("initial_lr", "max_lr", "min_lr") if name in options})
    several: Any = getattr(schedule.scheduler, "_schedulers", [schedule.scheduler])
    for each in several:
        for rates in (getattr(each, "base_lrs", None), getattr(each, "max_lrs", None)):
            if rates is not None:
                rates[group] *= factor


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step of `optimizer` computes the loss itself, several times, as that of LBFGS does."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is closure.empty


def parameter_groups(model: nn.Module, groups: Mapping[str, Options]) -> list[Any]:
    """The trainable parameters, as a list or as the groups that the patterns ask for.

    Raises:
        TrainingError: Nothing is trainable, or a pattern fits no parameter.
    """
    for asked, options in groups.items():
        expect(options, Mapping, f"parameter_groups[{asked!r}]", 'options by name, such as {"lr": 1e-2}')
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    if not named:
        raise TrainingError("The model has no trainable parameters: add a layer with weights, such as Linear.")
    if not groups:
        return [parameter for _, parameter in named]
    chosen: dict[str | None, list[nn.Parameter]] = {pattern: [] for pattern in groups}
    rest: list[nn.Parameter] = []
    for name, parameter in named:
        fitting = next((pattern for pattern in groups if fnmatchcase(name, pattern)), None)
        (rest if fitting is None else chosen[fitting]).append(parameter)
    for pattern, members in chosen.items():
        if not members:
            if any(fnmatchcase(name, str(pattern)) for name, _ in named):
                raise TrainingError(
                    f"No parameter is left for {pattern!r}: those with such a name fit a pattern before it, and the first "
                    "that fits counts. Put it before the wider ones."
                )
            hint = near(str(pattern), [name for name, _ in named])
            raise TrainingError(f"No trainable parameter has a name like {pattern!r}.{hint}")
    made: list[Any] = [{"params": members, **groups[str(pattern)]} for pattern, members in chosen.items()]
    return [{"params": rest}, *made] if rest else made


def make_schedule(
    choice: SchedulerChoice, optimizer: torch.optim.Optimizer, *, total_steps: int | None
) -> Schedule | None:
    """The scheduler that `choice` stands for.

    Args:
        choice: A name, a name with arguments, a function of the optimizer, or a scheduler; in front of ``"epoch"`` or
            ``"step"`` to say when it moves.
        optimizer: Whose learning rates it moves.
        total_steps: Optimizer steps of the whole training, which OneCycleLR gets unless told otherwise.

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
            made = _scheduler(name, {}, optimizer, total_steps)
        case (str() | type() as name, Mapping() as options):
            made = _scheduler(name, options, optimizer, total_steps)
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
    name: str | type, options: Options, optimizer: torch.optim.Optimizer, total_steps: int | None
) -> LRScheduler:
    counted = {"total_steps", "epochs", "steps_per_epoch"} & set(options)
    if name in ("OneCycleLR", OneCycleLR) and not counted and total_steps is not None:
        options = {**options, "total_steps": total_steps}
    made: LRScheduler = _build("scheduler", SCHEDULERS, name, options, optimizer)
    return made


def _build(kind: str, known: Mapping[str, type], name: str | type, options: Options, *arguments: Any) -> Any:
    if isinstance(name, type):
        return _call(kind, name.__name__, name, arguments, options)
    if name not in known:
        raise TrainingError(f"There is no {kind} called {shown(name)}.{near(name, known)}")
    return _call(kind, name, known[name], arguments, options)


def _call(kind: str, name: str, made_by: type, arguments: tuple[Any, ...], options: Options) -> Any:
    parameters = list(inspect.signature(made_by).parameters)
    for option in options:
        if option not in parameters:
            # The first ones are given here: the parameters of the model, or the optimizer.
            taken = parameters[len(arguments) :]
            raise TrainingError(
                f"{name} has no argument {option!r}; it has {', '.join(taken) or 'none'}.{near(option, taken)}"
            )
    try:
        return made_by(*arguments, **options)
    except (TypeError, ValueError) as error:
        why = str(error).rstrip(".")
        raise TrainingError(f"The {kind} {name} refuses its arguments {dict(options)!r}: {why}.") from error
