"""Checks the model, the loss, the options and the data of a foreign training loop once.

The engine knows its loss and its data. Here, the loss function is recognised by the autograd functions between the loss and the
model's output, and data are seen where they lie in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from pnne_nb.diagnosis.data_rules import data_faults
from pnne_nb.diagnosis.finding import Finding
from pnne_nb.diagnosis.first_step_rules import first_step_faults, spread
from pnne_nb.errors import TrainingError
from pnne_nb.runtime.data.batches import as_batch
from pnne_nb.runtime.data.open_data import held_tensors

_BETWEEN: Final = 64
"""Most autograd functions between a loss and an output that are examined."""
_LOSSES: Final[tuple[tuple[str, type[nn.Module]], ...]] = (
    ("LogSoftmaxBackward", nn.CrossEntropyLoss),
    ("BinaryCrossEntropyWithLogitsBackward", nn.BCEWithLogitsLoss),
    ("MseLossBackward", nn.MSELoss),
    ("SmoothL1LossBackward", nn.SmoothL1Loss),
    ("HuberLossBackward", nn.HuberLoss),
)


@final
class FirstLook:
    """Finds the faults that the first step of a training shows.

    Args:
        model: What is trained; its outputs are kept until then.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._output: Any = None
        self._called = False
        self._loss: Tensor | None = None
        # Lightning calls what is inside of its module, not the module.
        children = [child for child in model.children() if any(True for _ in child.parameters())]
        self._handles: list[RemovableHandle] = [model.register_forward_hook(self._returned)]
        self._handles += [child.register_forward_hook(self._part_returned) for child in children]

    def _returned(self, module: nn.Module, _given: object, output: Any) -> None:
        if module.training and torch.is_grad_enabled():
            self._output, self._called = output, True

    def _part_returned(self, module: nn.Module, _given: object, output: Any) -> None:
        if not self._called and module.training and torch.is_grad_enabled():
            self._output = output

    def differentiates(self, loss: Tensor) -> None:
        """Record the loss `[]` with its autograd graph, if the step gets another tensor, as in Lightning."""
        self._loss = loss

    def close(self) -> None:
        """Stop checking."""
        while self._handles:
            self._handles.pop().remove()
        self._output, self._loss = None, None

    def of_step(self, loss: Tensor | None, batch: Any, optimizer: torch.optim.Optimizer | None) -> list[Finding]:
        """Return the faults, and stop checking.

        Args:
            loss: Of the step, `[]`, with its graph; None if it is not known.
            batch: What the loader gave for it, or None.
            optimizer: What has made the step, or None if it is not known.
        """
        output = self._output
        loss = self._loss if loss is None or loss.grad_fn is None else loss
        self.close()
        if isinstance(output, Mapping):
            loss = output.get("loss") if loss is None else loss
            output = output.get("logits")
        layer, value = _loss_between(loss, output)
        target = _target(batch)
        function = "" if not isinstance(output, Tensor) or output.grad_fn is None else output.grad_fn.name()
        return [
            *spread(layer, output, target),
            *first_step_faults(self._model, layer, output, target, value, optimizer, None, function),
        ]


def faults_of_data(model: nn.Module, train: Any, val: Any) -> list[Finding]:
    """Return the faults of a loop's data in memory.

    Args:
        model: What is trained on it.
        train: A loader, a dataset, or a list of batches.
        val: The same of the validation data, or None.
    """
    held, judged = _all_of(train), _all_of(val)
    return data_faults(model, held, judged, has_target=held is not None and len(held) > 1)


def _all_of(data: Any) -> tuple[Tensor, ...] | None:
    whole = held_tensors(data)
    if whole is not None or not isinstance(data, list) or not data:
        return whole
    sizes = {len(batch) if isinstance(batch, tuple | list) else 0 for batch in data}
    if len(sizes) > 1 or 0 in sizes:
        return None
    columns = list(zip(*data, strict=True))
    if not all(isinstance(part, Tensor) and part.dim() and part.shape[1:] == column[0].shape[1:]
               for column in columns for part in column):  # fmt: skip
        return None
    return tuple(map(torch.cat, columns))


def _target(batch: Any) -> Tensor | None:
    if batch is None:
        return None
    try:
        target = as_batch(batch, wants_target=True).target
    except TrainingError:
        return None
    return target if isinstance(target, Tensor) else None


def _loss_between(loss: Tensor | None, output: Any) -> tuple[nn.Module | None, float]:
    """Return the kind of loss that was computed from an output, and its value if nothing else was added; otherwise 0."""
    if loss is None or loss.grad_fn is None or not isinstance(output, Tensor) or output.grad_fn is None:
        return None, 0.0
    pending, seen, names = deque([loss.grad_fn]), set[Any](), list[str]()
    while pending and len(seen) < _BETWEEN:
        function = pending.popleft()
        if function is output.grad_fn or function in seen:
            continue
        seen.add(function)
        names.append(function.name())
        pending += [before for before, _ in function.next_functions if before is not None]
    for name, layer in _LOSSES:
        if any(each.startswith(name) for each in names):
            alone = loss.grad_fn.name().startswith(("NllLoss", name))
            return layer(), float(loss.detach()) if alone else 0.0
    return None, 0.0
