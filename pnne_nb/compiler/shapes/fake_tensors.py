"""Runs models on fake tensors, which have a shape and an element type but no data."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, final

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from pnne_nb.compiler.shapes.autocast import unlogged
from pnne_nb.compiler.shapes.trial import without_counting
from pnne_nb.process.random_state import preserved_random_state


@contextmanager
def imitation(model: nn.Module, inputs: Any) -> Iterator[tuple[nn.Module, Any]]:
    """Provide copies of a model and of its inputs with fake tensors.

    Inside the ``with`` block, operations on them give such tensors too, exactly as large as real ones would be.
    The model and the inputs are left as they are. What depends on data (``tensor.item()``) raises.
    """
    with imitation_with_optimizer(model, inputs, None) as (twin, given, _):
        yield twin, given


@contextmanager
def imitation_with_optimizer(
    model: nn.Module, inputs: Any, optimizer: torch.optim.Optimizer | None
) -> Iterator[tuple[nn.Module, Any, torch.optim.Optimizer | None]]:
    """Provide the same as `imitation`, and a copy of an optimizer that moves the copy of the model."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = mode.from_tensor(tensor)
        return made

    state = optimizer.state.values() if optimizer is not None else ()
    tensors = [*model.parameters(), *model.buffers(), *filter(torch.is_tensor, pytree.tree_leaves(list(state)))]
    memo: dict[int, Any] = {id(tensor): fake(tensor) for tensor in tensors}
    twin = without_counting(copy.deepcopy(model, memo))
    moved = copy.deepcopy(optimizer, memo)
    given = pytree.tree_map(lambda leaf: fake(leaf) if isinstance(leaf, torch.Tensor) else leaf, inputs)
    # Without data, torch draws nothing; NumPy and Python do.
    with preserved_random_state(), unlogged(), mode, _AsReal():  # type: ignore[no-untyped-call]  # nor here
        yield twin, given, moved


@final
class _AsReal(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """Lets fake tensors be as real ones where they are not.

    Those of ``cpu:0`` are put on ``cpu``: operations mix real tensors of both, but refuse to mix fake ones. A recurrent
    layer keeps a workspace of oneDNN for its backward pass, most of what it takes, and a fake one keeps none.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        device = given.get("device")
        if isinstance(device, torch.device) and device.type == "cpu":
            given = {**given, "device": torch.device("cpu")}
        result = func(*args, **given)
        if func is _RECURRENT and torch.is_grad_enabled() and not result[_WORKSPACE].numel():
            return (*result[:_WORKSPACE], result[_WORKSPACE].new_empty(_workspace(func, args)))
        return result


_RECURRENT = getattr(torch.ops.aten.mkldnn_rnn_layer, "default", None)
_WORKSPACE = 3
"""Its place among the results; the last one."""
_TRIED = ((32, 96), (32, 64))
"""Steps, and examples, at which a workspace is made to see how large it is; it grows with both, page by page."""


def _workspace(func: Any, args: tuple[Any, ...]) -> int:
    """Return the bytes of oneDNN's workspace for one layer, which only oneDNN knows, by making small ones."""
    steps, examples, width = args[0].shape
    weights = tuple((tuple(each.shape), each.dtype) for each in args[1:5])
    options = tuple(tuple(each) if isinstance(each, list) else each for each in args[7:])
    tried = [
        (size,) if size <= most else (less, most) for size, (less, most) in zip((steps, examples), _TRIED, strict=True)
    ]
    found = {
        (length, count): _made_workspace(func, (length, count, width), weights, args[0].dtype, options)
        for length in tried[0]
        for count in tried[1]
    }

    def along(examples: int) -> float:
        return _line(steps, {length: found[length, examples] for length in tried[0]})

    return round(_line(examples, {count: along(count) for count in tried[1]}))


def _line(at: int, points: dict[int, float]) -> float:
    """Return the value at a place of the line through one or two points."""
    (first, value), *others = points.items()
    return value + sum((at - first) * (other - value) / (place - first) for place, other in others)


@cache
def _made_workspace(
    func: Any, shape: tuple[int, ...], weights: tuple[Any, ...], dtype: torch.dtype, options: tuple[Any, ...]
) -> int:
    with _disable_current_modes(), torch.enable_grad():
        hidden = torch.zeros(shape[1], weights[1][0][1], dtype=dtype)
        made = (torch.zeros(size, dtype=kind) for size, kind in weights)
        result = func(torch.zeros(shape, dtype=dtype), *made, hidden, hidden, *options)
        return int(result[_WORKSPACE].nbytes)
