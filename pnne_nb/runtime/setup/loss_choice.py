"""Chooses the loss by the target of the first examples and the model's output for one of them."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from torch import Tensor, nn

from pnne_nb.errors import PnneError, TargetError, TrainingError, shown
from pnne_nb.runtime.data.batches import Batch, as_batch
from pnne_nb.runtime.data.sources import BatchSource, DatasetSource, StreamSource, TensorSource
from pnne_nb.runtime.objective import losses
from pnne_nb.runtime.setup.config import Config
from pnne_nb.runtime.setup.models import trial_output

EXAMPLES: Final = 64
"""Examples of a dataset that are read to see whether all targets are 0 or 1."""


def choose_loss(config: Config, model: nn.Module, data: BatchSource) -> tuple[Config, losses.LossChoice]:
    """Choose the loss if none was given, by the data and the model's output for one example; the model does not change.

    Returns:
        What is asked for, with a loss; and the name of that, with the reason if it was chosen.

    Raises:
        TargetError: No loss fits the target and the output.
        TrainingError: The data is a stream, whose targets cannot be looked at before the training.
    """
    if config.step_function is not None:
        loss = None if config.loss == losses.BY_TARGET else config.loss
        return msgspec.structs.replace(config, loss=loss), losses.LossChoice("of the step function")
    if config.loss != losses.BY_TARGET:
        config = _balanced(config, model, data)
        return config, losses.LossChoice(losses.loss_name(config.loss), over=_over(config, model, data))
    batch = _first(data, 1, model)
    if batch is None:
        raise TrainingError(
            "No loss can be chosen, because the data is a stream, which is read only once. Give the loss: "
            'loss="CrossEntropyLoss" for classes, "MSELoss" for quantities, "BCEWithLogitsLoss" for yes and no.'
        )
    output = _output(model, batch, config.seed)
    choice = losses.loss_for(output, _targets(data, batch, output, model))
    if choice.name == "BCEWithLogitsLoss" and isinstance(list(model.modules())[-1], nn.Sigmoid):
        raise TargetError(
            "The model ends in Sigmoid, which BCEWithLogitsLoss computes itself: remove the Sigmoid, or give "
            'loss="BCELoss", with metrics=() or metrics that take probabilities.'
        )
    loss = losses.make_loss(choice.name)
    losses.require_classes(loss, losses.scores_for_loss(loss, output, batch.target))
    choice = msgspec.structs.replace(choice, over=_place(loss, output, batch.target))
    return msgspec.structs.replace(config, loss=choice.name), choice


def _balanced(config: Config, model: nn.Module, data: BatchSource) -> Config:
    """Return what is asked for with numbers for the weights ``"balanced"``, examples ÷ (classes × examples of the class).

    A class without examples has the weight 1.

    Raises:
        TrainingError: The weights are another text, or the targets are no classes in memory.
    """
    match config.loss:
        case (name, {"weight": str(weight), **options}):
            pass
        case _:
            return config
    if weight != "balanced":
        raise TrainingError(f'weight cannot be {shown(weight)}. Write "balanced", or a number for each class.')
    target = data.tensors[-1] if isinstance(data, TensorSource) and len(data.tensors) > 1 else None
    if target is None or target.is_floating_point() or target.dim() != 1 or int(target.min()) < 0:
        raise TrainingError(
            'The weights "balanced" are counted from whole numbers of classes in memory, as in train_data=(X, y). Give a number '
            'for each class instead: loss=("CrossEntropyLoss", {"weight": [1.0, 2.0]}).'
        )
    batch = _first(data, 1, model)
    output = None if batch is None else _output(model, batch, config.seed)
    outputs = output.shape[1] if isinstance(output, Tensor) and output.dim() > 1 else 0
    counts = target.long().bincount(minlength=outputs)
    weights = (len(target) / (int((counts > 0).sum()) * counts.clamp(min=1).double())).where(counts > 0, 1.0)
    return msgspec.structs.replace(config, loss=(name, {**options, "weight": weights.tolist()}))


def _over(config: Config, model: nn.Module, data: BatchSource) -> str:
    """Return where a given loss finds the scores of classes; the model runs only where each example has several targets."""
    if not isinstance(data, TensorSource) or len(data.tensors) < 2 or data.tensors[-1].dim() < 2 or config.loss is None:
        return ""
    batch = _first(data, 1, model)
    if batch is None or not isinstance(batch.target, Tensor) or batch.target.is_floating_point():
        return ""
    return _place(losses.make_loss(config.loss), _output(model, batch, config.seed), batch.target)


def _place(loss: Any, output: Any, target: Any) -> str:
    moved = losses.scores_for_loss(loss, output, target)
    return "" if moved is output else f"the last dimension of the output, {moved.shape[1]} classes"


def _first(data: BatchSource, count: int, model: nn.Module) -> Batch | None:
    if not isinstance(data, (TensorSource, DatasetSource, StreamSource)):
        return None
    raw = data.first(count)
    return None if raw is None else as_batch(raw, wants_target=True, model=model)


def _targets(data: BatchSource, first: Batch, output: Any, model: nn.Module) -> Any:
    """Return the targets for the choice: all in memory; of a dataset, more than the first only if that may help."""
    if isinstance(data, TensorSource):
        return data.tensors[-1]
    one = isinstance(output, Tensor) and output.numel() == 1
    if not isinstance(first.target, Tensor) or not (one or first.target.is_floating_point()):
        return first.target
    more = _first(data, EXAMPLES, model)
    return first.target if more is None else more.target


def _output(model: nn.Module, batch: Batch, seed: int) -> Any:
    """Return the model's output for one example; None if it fails, which the first step will explain."""
    try:
        return trial_output(model, batch, seed)
    except (PnneError, RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError, AssertionError):
        return None
