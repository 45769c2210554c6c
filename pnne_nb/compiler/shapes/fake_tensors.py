"""Runs models on fake tensors, which have a shape and an element type but no data."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from pnne_nb.compiler.shapes.autocast import unlogged
from pnne_nb.compiler.shapes.trial import without_counting


@contextmanager
def imitation(model: nn.Module, inputs: Any) -> Iterator[tuple[nn.Module, Any]]:
    """Provide copies of a model and of its inputs with fake tensors.

    Inside the ``with`` block, operations on them give such tensors too, exactly as large as real ones would be.
    The model and the inputs are left as they are. What depends on data (``tensor.item()``) raises.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = mode.from_tensor(tensor)
        return made

    tensors = [*model.parameters(), *model.buffers()]
    memo: dict[int, Any] = {id(tensor): fake(tensor) for tensor in tensors}
    twin = without_counting(copy.deepcopy(model, memo))
    given = pytree.tree_map(lambda leaf: fake(leaf) if isinstance(leaf, torch.Tensor) else leaf, inputs)
    with unlogged(), mode, _OneCpu():  # type: ignore[no-untyped-call]  # nor here
        yield twin, given


@final
class _OneCpu(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """Puts fake tensors of ``cpu:0`` on ``cpu``: operations mix real tensors of both, but refuse to mix fake ones."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        device = given.get("device")
        if isinstance(device, torch.device) and device.type == "cpu":
            given = {**given, "device": torch.device("cpu")}
        return func(*args, **given)
