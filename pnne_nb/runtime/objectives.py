"""What training makes smaller: losses by name, by class, or ready made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from pnne_nb.errors import TrainingError, shown
from pnne_nb.runtime.by_name import Options, build, classes

Loss: TypeAlias = "str | tuple[str | type, Options] | type[nn.Module] | Callable[[Any, Any], Tensor] | None"

LOSSES: dict[str, type] = {name: value for name, value in classes(nn, nn.Module).items() if name.endswith("Loss")}


def make_loss(loss: Loss) -> Callable[[Any, Any], Tensor] | None:
    """The loss function that `loss` stands for; None if the model returns its own loss.

    Raises:
        TrainingError: Unknown name, wrong arguments, or something that is no loss.
    """
    match loss:
        case None:
            return None
        case (str() | type()) as name:
            made: Callable[[Any, Any], Tensor] = build("loss", LOSSES, name, {})
        case (str() | type() as name, Mapping() as options):
            made = build("loss", LOSSES, name, _with_tensors(options))
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
