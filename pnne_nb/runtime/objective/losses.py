"""Finds the loss that the user asks for: a name, a class, or an instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec
import torch
from torch import Tensor, nn

from pnne_nb.errors import TargetError, TrainingError, shown
from pnne_nb.runtime.objective.metrics import are_classes
from pnne_nb.runtime.optim.resolve import Options, build, classes

Loss: TypeAlias = "str | tuple[str | type, Options] | type[nn.Module] | Callable[[Any, Any], Tensor] | None"

LOSSES: dict[str, type] = {name: value for name, value in classes(nn, nn.Module).items() if name.endswith("Loss")}

BY_TARGET = "auto"
"""Has the loss chosen by the target."""


class LossChoice(msgspec.Struct, frozen=True):
    """The loss of a training; as text ``"MSELoss (chosen: the targets are floats)"``.

    Attributes:
        name: Its name, or whose it is: ``"of the model"``.
        reason: Why it was chosen; empty if it was given.
        over: Where the scores of the classes are, if not along dimension 1.
    """

    name: str
    reason: str = ""
    over: str = ""

    def __str__(self) -> str:
        over = f" over {self.over}" if self.over else ""
        return f"{self.name}{over} (chosen: {self.reason})" if self.reason else f"{self.name}{over}"


def loss_for(output: Any, target: Any) -> LossChoice:
    """Choose the loss by the target.

    Integers are numbers of classes; where the model has one output, 0 and 1 are yes and no. Floats are quantities, unless
    all of them are 0 or 1, or each row holds probabilities of classes: the metric ``"accuracy"`` reads them in the same way.

    Args:
        output: Of the model for one example (``[1, ...]``); None if unknown.
        target: Of several examples.

    Raises:
        TargetError: None of them can compare the two, or two of them could and the choice would mislead.
    """
    if not isinstance(target, Tensor):
        raise TargetError(
            f"No loss can be chosen for a target that is a {type(target).__name__}: give a function of output and target, "
            f"such as loss=lambda output, target: {_sum_of_losses(target)}."
        )
    if target.is_complex():
        raise TargetError(
            "No loss can be chosen for complex targets: give a function of output and target, such as "
            "loss=lambda output, target: (output - target).abs().square().mean(), or torch.view_as_real(y) as the target."
        )
    known = output if isinstance(output, Tensor) and output.dim() and output.shape[0] == 1 else None
    if not target.is_floating_point():
        # A model that squeezes its output has no dimension left for one example.
        if isinstance(output, Tensor) and output.numel() == 1:
            return _for_one_output(output, target)
        if known is not None and target.dim() > 1 and target.shape[1:] == known.shape[1:]:
            raise TargetError(_whole_numbers_like_outputs(target))
        return LossChoice("CrossEntropyLoss", "the targets are whole numbers, one for each class")
    if known is not None and known.shape[1:] != target.shape[1:]:
        raise TargetError(_unlike(known, target))
    binary = ((target == 0) | (target == 1)).all() and (target == 0).any() and (target == 1).any()
    several = target.dim() > 1 and target.shape[1] > 1
    if several and are_classes(target) and bool(((target.sum(1) - 1).abs() < 1e-3).all()):
        return LossChoice("CrossEntropyLoss", "each row of the targets holds probabilities of classes")
    if bool(binary):
        return LossChoice("BCEWithLogitsLoss", "the targets are 0 or 1")
    return LossChoice("MSELoss", "the targets are floats")


def _sum_of_losses(target: Any) -> str:
    """Return an expression with a loss for each of several targets, which stand under the same names as the outputs."""
    terms = (
        [
            f"F.{'mse_loss' if isinstance(each, Tensor) and each.is_floating_point() else 'cross_entropy'}"
            f"(output[{place!r}], target[{place!r}])"
            for place, each in (target.items() if isinstance(target, Mapping) else enumerate(target))
        ]
        if isinstance(target, Mapping | tuple | list)
        else ["F.cross_entropy(output, target.long())"]
    )
    return " + ".join(terms)


def _for_one_output(output: Tensor, target: Tensor) -> LossChoice:
    if target.shape[1:].numel() != 1:
        raise TargetError(
            f"The model has one output, and the targets are whole numbers of shape {_batch(target)}: give the last layer "
            f"{_outputs(target)} for quantities, with y.float(), or a target of shape (N,) for classes."
        )
    if not _is_yes_and_no(target):
        raise TargetError(_classes_of_one_output(target, tuple(output.shape)))
    return LossChoice("BCEWithLogitsLoss", "the targets are 0 or 1")


def _classes_of_one_output(target: Tensor, shape: tuple[int, ...]) -> str:
    shaped = f"torch.as_tensor(y).float().reshape({', '.join(map(str, (-1, *shape[1:])))})"
    low, high = (int(end) for end in target.aminmax())
    if low != high and bool(((target == low) | (target == high)).all()):
        return (
            f"The model has one output, and the targets are {low} and {high}. For yes and no, give y == {high}, and the loss is "
            f"BCEWithLogitsLoss; for quantities, give {shaped}, and it is MSELoss."
        )
    classes = (
        f"the last layer {high + 1} outputs" if low >= 0 else f"y + {-low} and the last layer {high - low + 1} outputs"
    )
    return (
        f"The model has one output, and the targets are whole numbers from {low} to {high}. If they are quantities, give "
        f"{shaped}, and the loss is MSELoss; if they are classes, give {classes}, and it is CrossEntropyLoss."
    )


def _is_yes_and_no(target: Tensor) -> bool:
    """Return whether integer targets, which may be empty, are only 0 and 1."""
    if target.dtype == torch.bool or not target.numel():
        return True
    low, high = target.aminmax()
    return int(low) >= 0 and int(high) <= 1


def target_for_loss(loss: Any, output: Any, target: Any) -> Any:
    """Return the target as `loss` takes it: for BCEWithLogitsLoss, whole numbers or booleans as floats of the output's shape.

    Shape:
        - output: `[N, ...]`, of the model, or anything else.
        - target: the same but for dimensions of size 1; another one is returned as it is, for the loss to refuse.
        - Returns: `[N, ...]`, as output.
    """
    if type(loss) is not nn.BCEWithLogitsLoss or not (isinstance(output, Tensor) and isinstance(target, Tensor)):
        return target
    if target.is_floating_point() or target.is_complex() or not output.is_floating_point():
        return target
    if target.shape != output.shape and _sizes(target) != _sizes(output):
        return target
    return target.reshape(output.shape).to(output.dtype)


_OF_CLASSES: Final = (nn.CrossEntropyLoss, nn.NLLLoss)
_FUNCTIONS_OF_CLASSES: Final = (nn.functional.cross_entropy, nn.functional.nll_loss)


def scores_for_loss(loss: Any, output: Any, target: Any) -> Any:
    """Return the output as `loss` takes it: for torch's losses of classes, their scores along dimension 1.

    Models of sequences give the scores of each place along the last dimension, as `nn.Linear` makes them.

    Shape:
        - output: `[N, C, ...]`, or `[N, ..., C]` where that alone fits the target; others are returned as they are.
        - target: `[N, ...]`, numbers of classes; anything else is of no matter.
        - Returns: `[N, C, ...]`.
    """
    if not isinstance(loss, _OF_CLASSES) and not any(loss is one for one in _FUNCTIONS_OF_CLASSES):
        return output
    if not (isinstance(output, Tensor) and isinstance(target, Tensor)) or target.is_floating_point():
        return output
    if not output.dim() == target.dim() + 1 > 2 or output.shape[:-1] != target.shape:
        return output
    as_it_is = (output.shape[0], *output.shape[2:]) == tuple(target.shape)
    return output if as_it_is else output.movedim(-1, 1)


def require_yes_and_no(target: Tensor) -> None:
    """Raise an error if integer targets for BCEWithLogitsLoss are not 0 and 1.

    Shape:
        - target: `[N, ...]`, whole numbers or booleans.

    Raises:
        TargetError: There are others, which would train something else.
    """
    if not _is_yes_and_no(target):
        low, high = (int(end) for end in target.aminmax())
        raise TargetError(
            f"BCEWithLogitsLoss takes 0 and 1, and the targets are whole numbers from {low} to {high}. For -1 and 1, give "
            f'y > 0; for classes, give the last layer {max(high, 1) + 1} outputs and loss="CrossEntropyLoss"; for quantities, '
            'give y.float() and loss="MSELoss".'
        )


def _sizes(tensor: Tensor) -> list[int]:
    return [size for size in tensor.shape if size != 1]


def _whole_numbers_like_outputs(target: Tensor) -> str:
    rows = target.flatten(1)
    if bool(((rows == 0) | (rows == 1)).all()):
        one_hot = bool((rows.sum(1) == 1).all())
        kind = "one-hot: y.float() keeps them, and the loss is CrossEntropyLoss; y.argmax(1) gives the numbers of the classes"
        several = "yes and no for each output: give y.float(), and the loss is BCEWithLogitsLoss"
        return f"The targets are whole numbers of the output's shape {_batch(target)}. They look {kind if one_hot else several}."
    return (
        f"The targets are whole numbers of the output's shape {_batch(target)}. If they are quantities, give y.float(), and "
        "the loss is MSELoss; numbers of classes have no dimension for the classes."
    )


def _unlike(output: Tensor, target: Tensor) -> str:
    shapes = f"The model's output has shape {_batch(output)}, the targets are floats of shape {_batch(target)}"
    if output[0].numel() == target[0].numel():
        sizes = ", ".join(map(str, (-1, *output.shape[1:])))
        return f"{shapes}: give them the output's shape, y.reshape({sizes})."
    if bool((target == target.round()).all()) and bool((target >= 0).all()):
        return (
            f"{shapes}. If they are numbers of classes, give them as integers, y.long(), and the loss is CrossEntropyLoss; "
            f"if they are quantities, the model must have {_outputs(target)} for an example."
        )
    return f"{shapes}: quantities need one output for each, so give the last layer {_outputs(target)}."


def _outputs(target: Tensor) -> str:
    count = target[0].numel()
    return f"{count} output{'s' * (count != 1)}"


def _batch(tensor: Tensor) -> str:
    """Return a shape with N for the number of examples."""
    return f"({', '.join(map(str, ('N', *tensor.shape[1:])))}{',' * (tensor.dim() == 1)})"


def require_classes(loss: Any, output: Any) -> None:
    """Raise an error if torch's CrossEntropyLoss gets a single output for each example, over which it is always 0.

    Raises:
        TargetError: It does.
    """
    if not isinstance(loss, nn.CrossEntropyLoss) or not isinstance(output, Tensor):
        return
    if output.dim() > 1 and output.shape[1] == 1:
        raise TargetError(
            f"CrossEntropyLoss compares the scores of several classes, and the model has one output {_batch(output)}: the "
            'loss would always be 0. Choose loss="BCEWithLogitsLoss" for yes and no, loss="MSELoss" for a quantity, both '
            "with float targets of the output's shape; or give the last layer one output for each class."
        )


def class_span(loss: Any, target: Any) -> tuple[int, int] | None:
    """Return the smallest and the largest class of a target that `loss` compares with scores; None if it has none.

    Classes that the loss ignores do not count. Where the target is on an accelerator, this waits for it.
    """
    by_class = isinstance(loss, (nn.CrossEntropyLoss, nn.NLLLoss))
    if not (by_class and isinstance(target, Tensor) and target.numel()) or target.is_floating_point():
        return None
    low, high = (int(edge) for edge in target.aminmax())
    if loss.ignore_index in (low, high):
        kept = target[target != loss.ignore_index]
        return (int(kept.min()), int(kept.max())) if kept.numel() else None
    return low, high


def expect_classes(span: tuple[int, int], output: Any) -> None:
    """Raise the error that the CPU raises for a class without a score; an accelerator would compute nothing more.

    Raises:
        IndexError: There is no score of one of the classes in `span`.
    """
    if not isinstance(output, Tensor) or not output.dim():
        return
    classes = output.shape[0 if output.dim() == 1 else 1]
    for number in span:
        if not 0 <= number < classes:
            raise IndexError(f"Target {number} is out of bounds.")


def make_loss(loss: Loss) -> Callable[[Any, Any], Tensor] | None:
    """Return the loss function for `loss`; None if the model returns its own loss.

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


def loss_name(loss: Loss) -> str:
    """Return the name of a loss, however it was given."""
    match loss:
        case None:
            return "of the model"
        case str():
            return loss
        case (str() | type() as name, _):
            return loss_name(name)
        case _:
            return getattr(loss, "__name__", type(loss).__name__)


def _with_tensors(options: Options) -> Options:
    """Return the options with class weights as tensors; the user may give numbers, which a checkpoint can hold."""
    given = {name: options[name] for name in ("weight", "pos_weight") if isinstance(options.get(name), (list, tuple))}
    return {**options, **{name: torch.tensor(value, dtype=torch.float32) for name, value in given.items()}}


def require_trained(loss: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Raise an error if `optimizer` does not train the parameters of `loss`.

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
    """Return whether `loss` may have a state of its own; torch's losses hold only settings."""
    return not type(loss).__module__.startswith("torch.") and bool(loss.state_dict())
