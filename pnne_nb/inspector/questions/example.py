"""One model with one example: calls it as it predicts, reads one number of its output, and leaves it as it was."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from pnne_nb.compiler.analysis.device_rule import following
from pnne_nb.errors import ArgumentError, InspectionError, shown
from pnne_nb.inspector.capture.call_arguments import call_arguments, placed
from pnne_nb.inspector.capture.hooks import primary_tensor
from pnne_nb.inspector.capture.preserve import is_compiled, preserved, uncompiled, why_not_hookable
from pnne_nb.inspector.capture.run import copied

Target = int | Sequence[int] | Tensor | Callable[[Any], Tensor] | None
"""Which number of the output is meant; see `scores_of`."""


@final
class Example:
    """A model and the arguments of one call.

    Attributes:
        model: The model; it is in evaluation mode while the example is open.
        inputs: The tensors among the arguments, by the names that ``forward`` gives them: ``x``, or ``batch.ids`` in a dict.
        received: The copies of them that the last call received.
    """

    def __init__(self, model: nn.Module, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        self.model = model
        self._args, self._kwargs = args, dict(kwargs)
        parameters = inspect.signature(model.forward).parameters.values()
        names = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        self._names = [*names[: len(args)], *(f"args.{place}" for place in range(len(names), len(args)))]
        self.inputs = self._tensors(args, self._kwargs)
        self.received: dict[str, Tensor] = {}

    def run(self, instead: Mapping[str, Tensor] | None = None) -> Any:
        """Call the model, with other tensors for some of its inputs.

        Raises:
            InspectionError: If ``forward`` does not take the example.
            Exception: An error of the model, with a note that names the layer.
        """
        given = instead or {}

        def taken(name: str, value: object) -> object:
            # A copy of what is given would lose its history in autograd.
            return given[name].clone() if name in given else copied(value)

        args = tuple(_mapped(taken, name, value) for name, value in zip(self._names, self._args, strict=True))
        kwargs = {name: _mapped(taken, name, value) for name, value in self._kwargs.items()}
        self.received = self._tensors(args, kwargs)
        with placed(self.model, args, kwargs):
            return self.model(*args, **kwargs)

    def _tensors(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}

        def keep(name: str, value: object) -> None:
            if isinstance(value, Tensor):
                found[name] = value

        for name, value in [*zip(self._names, args, strict=True), *kwargs.items()]:
            _mapped(keep, name, value)
        return found


def _mapped(function: Callable[[str, object], object], name: str, value: object) -> object:
    """Return `value` with each part of its dicts, lists and tuples replaced by ``function(name, part)``."""
    if type(value) is dict:
        return {key: _mapped(function, f"{name}.{key}", part) for key, part in value.items()}
    if isinstance(value, list | tuple) and type(value) in {list, tuple}:
        return type(value)(_mapped(function, f"{name}.{place}", part) for place, part in enumerate(value))
    return function(name, value)


@contextmanager
def opened(net: nn.Module, data: object, *, grad: bool, evaluation: bool = True) -> Iterator[Example]:
    """Make an example of a model and `data`; afterwards, the model and all random numbers are as before.

    Args:
        net: Any module. One that ``torch.compile`` made runs as the module that it wraps.
        data: A tensor is the model's argument, a tuple its arguments, a mapping its keyword arguments.
        grad: Whether autograd records the calls.
        evaluation: Whether the model predicts, as in evaluation mode; otherwise it keeps its mode.

    Raises:
        ArgumentError: If `net` is no module.
        InspectionError: If its layers cannot be seen (TorchScript), or have no parameters yet (lazy layers).
    """
    model = uncompiled(net)
    refuse_unseen(model)
    with ExitStack() as stack:
        stack.enter_context(preserved(model))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.set_grad_enabled(grad))
        if is_compiled(model):
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        if evaluation:
            for module in model.modules():
                module.training = False
            if grad and any(isinstance(module, nn.RNNBase) for module in model.modules()):
                # cuDNN has a backward pass of recurrent layers in training mode only.
                stack.enter_context(torch.backends.cudnn.flags(enabled=False))
        args, kwargs = call_arguments(following(data, model), model)
        yield Example(model, args, kwargs)


def refuse_unseen(model: nn.Module) -> None:
    """Raise an error if hooks cannot see the layers of `model`.

    Raises:
        InspectionError: If it is a TorchScript module, or has one inside.
    """
    reason = why_not_hookable(model)
    if reason and not is_compiled(model):
        raise InspectionError(reason)


def whole_numbers(value: object) -> tuple[int, ...] | None:
    """Return one whole number or several, of Python, NumPy or torch, as a tuple; None if it is something else."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        value = value.tolist()
    listed: Sequence[object] = value if isinstance(value, tuple | list | range) else (value,)
    found: tuple[Any, ...] = tuple(one.tolist() if isinstance(one, Tensor | np.generic) else one for one in listed)
    return found if found and all(type(one) is int for one in found) else None


def element_index(index: object) -> tuple[int, ...]:
    """Return the index of one number of an output, the example first.

    Raises:
        ArgumentError: If it is none.
    """
    places = whole_numbers(index)
    if places is None:
        raise ArgumentError(
            f"index must be that of one number of the output, such as (0, 3, 5, 5), not {shown(index)}."
        )
    return places


def require_element(layer: str, index: tuple[int, ...], output: Tensor) -> tuple[int, ...]:
    """Return an index of a layer's output, with negative numbers counted from the end.

    Raises:
        InspectionError: If the output has no such element.
    """
    sizes = output.shape
    if len(index) != len(sizes) or any(not -n <= place < n for place, n in zip(index, sizes, strict=True)):
        raise InspectionError(f"The layer {layer!r} has no element {index}: its output has the shape {list(sizes)}.")
    return tuple(place % size for place, size in zip(index, sizes, strict=True))


def scores_of(output: object, target: Target) -> Tensor:
    """Return the number of the output that is asked about, for each example: `[n]`.

    Args:
        output: What the model returned.
        target: An index into the output of one example: a number for `[n, k]`, as many as it has dimensions beside the
            first otherwise. A tensor of whole numbers is one class for each example. A function gets `output` as it is.
            None stands for the only number that an example has.

    Raises:
        InspectionError: If there is no such number, or several and no target.
        ArgumentError: If `target` is something else.
    """
    if callable(target) and not isinstance(target, Tensor):
        found: object = target(output)
        if not isinstance(found, Tensor) or found.dim() > 1 or not found.is_floating_point():
            shape = f"a tensor {list(found.shape)}" if isinstance(found, Tensor) else shown(found)
            raise InspectionError(f"The function in target must return one real number for each example, not {shape}.")
        return found.reshape(-1)
    tensor = primary_tensor(output)
    if tensor is None or not tensor.is_floating_point():
        what = f"a {type(output).__name__}" if tensor is None else f"a tensor of {str(tensor.dtype)[6:]}"
        raise InspectionError(
            f"The model returns {what}, in which there is no real number to ask about. Give a function that takes one"
            " from the output: target=lambda output: output.logits[:, 3]."
        )
    each = tensor.shape[1:] if tensor.dim() != 1 else torch.Size()
    if target is None:
        if math.prod(each) == 1:
            return tensor.reshape(-1)
        best = [int(one) for one in torch.unravel_index(tensor.detach()[0].argmax(), each)]
        line = f"target={best[0] if len(best) == 1 else tuple(best)}"
        raise InspectionError(
            f"The output has the shape {list(tensor.shape)}: say which number of each example is asked about, such as"
            f" {line}, the largest of the first example."
        )
    if isinstance(target, Tensor) and target.dim() == 1:
        return _one_each(tensor, target)
    return _indexed(tensor, _index(target))


def _index(target: object) -> tuple[int, ...]:
    places = whole_numbers(target)
    if places is None:
        raise ArgumentError(
            f"target cannot be {shown(target)}: give the index of a class (target=3), one index for each dimension of the"
            " output of an example (target=(3, 5, 5)), a tensor with a class for each example, or a function of the output."
        )
    return places


def _indexed(tensor: Tensor, index: tuple[int, ...]) -> Tensor:
    alone = tensor.dim() == 1  # the output of a model without batches
    each = tensor.shape if alone else tensor.shape[1:]
    said = index[0] if len(index) == 1 else index
    if len(index) != len(each):
        example = tuple(0 for _ in each[1:])
        line = f"target={(*example, *index[-1:])}" if len(each) > 1 else "target=0"
        raise InspectionError(
            f"target={said} is {'one index' if len(index) == 1 else f'{len(index)} indices'}, and the output of an example"
            f" has the shape {list(each)}: give one index for each dimension, such as {line}, or a function of the output,"
            " such as target=lambda output: output[:, 0].flatten(1).sum(1)."
        )
    if any(not -size <= place < size for place, size in zip(index, each, strict=True)):
        raise InspectionError(
            f"target={said} is outside of the output of an example, which has the shape {list(each)}."
        )
    return tensor[index].reshape(1) if alone else tensor.movedim(0, -1)[index]


def _one_each(tensor: Tensor, target: Tensor) -> Tensor:
    if tensor.dim() != 2 or len(target) != len(tensor) or target.is_floating_point():
        raise InspectionError(
            f"A target of the shape {list(target.shape)} is one class for each example, and fits an output [{len(target)}, k]:"
            f" this one has the shape {list(tensor.shape)}. Give one index for each dimension, target=(3, 5, 5)."
        )
    if bool(((target < 0) | (target >= tensor.shape[1])).any()):
        raise InspectionError(f"A class of target is outside of the output, which has {tensor.shape[1]} of them.")
    return tensor.gather(1, target.to(tensor.device, torch.int64).unsqueeze(1)).squeeze(1)
