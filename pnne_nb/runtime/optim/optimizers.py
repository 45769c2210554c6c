"""Makes optimizers from names, factories or instances, and changes their options during a training."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from types import NoneType
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd import profiler
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from pnne_nb.errors import TrainingError, expect, near, shown
from pnne_nb.process.background_import import wait_for_import
from pnne_nb.runtime.optim.resolve import Options, build, call, classes, meant_option
from pnne_nb.runtime.optim.schedules import Schedule, rescale

OptimizerChoice: TypeAlias = (
    "str | tuple[str | type, Options] | torch.optim.Optimizer | Callable[[Iterable[Any]], torch.optim.Optimizer]"
)
Asked: TypeAlias = tuple[Any, Mapping[str, Options]]
"""An optimizer by its name, alone or with options, and the options of its parameter groups by pattern."""

OPTIMIZERS: dict[str, type] = classes(torch.optim, torch.optim.Optimizer, exclude=frozenset({"Optimizer"}))


def make_optimizer(
    choice: OptimizerChoice, model: nn.Module, groups: Mapping[str, Options] | None = None
) -> torch.optim.Optimizer:
    """Return the optimizer for `choice` over the model's trainable parameters.

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
    wait_for_import()  # optimizers import what may be under way already
    match choice:
        case (str() | type()) as name:
            made: torch.optim.Optimizer = build("optimizer", OPTIMIZERS, name, {}, parameters)
        case (str() | type() as name, Mapping() as options):
            made = build("optimizer", OPTIMIZERS, name, options, parameters)
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


def require_no_strays(optimizer: torch.optim.Optimizer) -> None:
    """Refuse an optimizer of torch with an attribute such as ``lr``, which somebody has set, and which it does not read.

    Raises:
        TrainingError: See above.
    """
    if not type(optimizer).__module__.startswith("torch.optim."):
        return
    stray = next(
        (name for name in ("lr", "learning_rate", "weight_decay", "momentum") if name in vars(optimizer)), None
    )
    if stray is not None:
        option = "lr" if stray == "learning_rate" else stray
        raise TrainingError(
            f"optimizer.{stray} was set, and {type(optimizer).__name__} does not read it. Write del engine.optimizer.{stray} and "
            f"engine.set_optimizer({option}={shown(getattr(optimizer, stray))})."
        )


def set_options(
    optimizer: torch.optim.Optimizer, schedule: Schedule | None, options: Options, group: int | None = None
) -> None:
    """Set options such as ``lr`` in every parameter group, or in one; `schedule` continues from them.

    Raises:
        TrainingError: The optimizer has no such option or group, refuses the value, or `schedule` would replace it as
            soon as it moves; then nothing has changed.
    """
    count = len(optimizer.param_groups)
    if group is not None and group not in range(count):
        raise TrainingError(f"There is no parameter group {shown(group)}; there are {count}, numbered from 0.")
    known = [name for name in optimizer.param_groups[0] if name != "params"]
    for name in options:
        if name not in known:
            has = f"{type(optimizer).__name__} has no option {name!r}; it has {', '.join(known)}."
            raise TrainingError(f"{has}{meant_option(name, known)}")
    _require_finite(options)
    _require_options(optimizer, options)
    numbers = range(count) if group is None else (group,)
    if schedule is not None:
        for number in numbers:
            _require_lasting(schedule, number, options)
    for number in numbers:
        set_group_options(optimizer, schedule, number, options)


def changed_options(
    optimizer: torch.optim.Optimizer, schedule: Schedule | None, before: Asked, now: Asked
) -> list[dict[str, Any]]:
    """Return the options that differ between two choices of an optimizer, for each of its groups; options set by hand stay.

    A schedule begins with the learning rate that is asked for: where there is one, the present rate changes in
    proportion.

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
    """Set options of the parameter group `number`; `schedule` continues from them."""
    group = optimizer.param_groups[number]
    before = float(group["lr"])
    group.update(options)
    if before and "lr" in options:
        rescale(schedule, number, float(group["lr"]) / before)


def _require_finite(options: Options) -> None:
    # Torch asks whether a rate is negative, and NaN is not.
    for name in ("lr", "weight_decay", "momentum"):
        value = options.get(name, 0.0)
        if isinstance(value, (float, Tensor)) and not bool(torch.as_tensor(value).isfinite().all()):
            raise TrainingError(f"{name} must be a finite number, not {shown(value)}.")


def _require_options(optimizer: torch.optim.Optimizer, options: Options) -> None:
    made_by = type(optimizer)
    if made_by not in OPTIMIZERS.values():
        return
    # A group may hold more than the arguments have names for.
    taken = [name for name in inspect.signature(made_by).parameters if name != "params"]
    known = {name: value for name, value in options.items() if name in taken or name not in optimizer.defaults}
    call("optimizer", made_by.__name__, made_by, ([nn.Parameter(torch.zeros(1, 1))],), known)


def _require_lasting(schedule: Schedule, number: int, options: Options) -> None:
    """Raise an error if the next step of `schedule` would overwrite the options, as copies of it show."""
    before, moved = schedule.scheduler.optimizer.param_groups[number], []
    for given in ({}, options):
        try:
            tried = schedule.copied()
            set_group_options(tried.scheduler.optimizer, tried, number, given)
            tried.advance(tried.every, 0.0)
        except Exception:  # noqa: BLE001  one of somebody's own may refuse copies; at its end, none moves any further
            return
        moved.append(tried.scheduler.optimizer.param_groups[number])
    lost = [
        name for name in options if _is_lost(before.get(name), options[name], *(group.get(name) for group in moved))
    ]
    if lost:
        raise TrainingError(schedule.replaces(lost[0], options[lost[0]]))


def _is_lost(before: Any, wanted: Any, without: Any, moved: Any) -> bool:
    """Return whether a changed number is, after a scheduler step, the same as without the change."""
    if isinstance(wanted, (tuple, list)):
        parts = zip(before, wanted, without, moved, strict=True)
        return any(_is_lost(*part) for part in parts)
    # Nought stays nought in any proportion.
    return bool(wanted != before and moved == without and moved not in (wanted, 0))


def update(optimizer: torch.optim.Optimizer) -> None:
    """Do what ``step()`` does, without its profiler label, which costs three percent of a small model's step.

    While torch's profiler is on, and where the optimizer has hooks or a ``step`` of its own, ``step()`` is called.
    """
    made: Any = type(optimizer).step
    hooks = (
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
    )
    # Torch wraps the method of a class with the label and the hooks, and marks what it has wrapped.
    if hooks or profiler._is_profiler_enabled or "step" in vars(optimizer) or not getattr(made, "hooked", False):
        optimizer.step()
    else:
        made.__wrapped__(optimizer)


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether a step of `optimizer` computes the loss itself, several times, as that of LBFGS does."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is closure.empty


def _known_otherwise(model: nn.Module, pattern: str) -> str:
    """Return why a pattern matches nothing although there are parameters with such names."""
    first = {id(one): name for name, one in model.named_parameters()}
    for name, one in model.named_parameters(remove_duplicate=False):
        if fnmatchcase(name, pattern):
            if not one.requires_grad:
                return f" {name} is frozen: graph.unfreeze or requires_grad_(True) before the engine is made lets it be trained."
            return f" {name} is shared, and known as {first[id(one)]}: use that name."
    return ""


def is_all_moved(choice: OptimizerChoice) -> bool:
    """Return whether the optimizer gets all parameters, not those that the user selected."""
    return isinstance(choice, (str, tuple, type))


def left_out(model: nn.Module, movers: Iterable[object]) -> list[str]:
    """Return the names of trainable parameters that no optimizer among `movers` has."""
    groups = [group for one in movers if isinstance(one, torch.optim.Optimizer) for group in one.param_groups]
    moved = {id(one) for group in groups for one in group["params"]}
    return [name for name, one in model.named_parameters() if one.requires_grad and id(one) not in moved]


def parameter_groups(model: nn.Module, groups: Mapping[str, Options]) -> list[Any]:
    """Return the trainable parameters as a list, or as groups by the patterns.

    Raises:
        TrainingError: Nothing is trainable, or a pattern fits no parameter.
    """
    for asked, options in groups.items():
        expect(options, Mapping, f"parameter_groups[{asked!r}]", 'options by name, such as {"lr": 1e-2}')
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    if not named:
        if any(True for _ in model.parameters()):
            raise TrainingError(
                'All weights of the model are frozen: graph.unfreeze("fc") before the engine is made has a node trained, and '
                "model.fc.requires_grad_(True) a module."
            )
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
                    f"No parameter is left for {pattern!r}: parameters with such a name match an earlier pattern, and the "
                    "first match counts. Put it before the wider patterns."
                )
            hint = _known_otherwise(model, str(pattern)) or near(str(pattern), [name for name, _ in named])
            raise TrainingError(f"No trainable parameter has a name like {pattern!r}.{hint}")
    made: list[Any] = [{"params": members, **groups[str(pattern)]} for pattern, members in chosen.items()]
    return [{"params": rest}, *made] if rest else made
