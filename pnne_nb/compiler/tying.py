"""Tensors of a model that are one are made once: its constructors make one for each name, and drop all but one.

A layer whose weight is another's is made with a weight of its own, for a constructor knows nothing of other layers. A
thousand such would all be in memory before the first is dropped. So a model with such ties is made without data first;
what it drops is then made in one piece of memory. Values are drawn for it all the same, as its source says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

LARGE = 2**26
"""Models whose weights cannot take more bytes than this are made as they are."""

Observer = Callable[[torch.Tensor], torch.Tensor | None]
"""Gets what a module is about to hold, and may return what it holds instead."""


def made_once(make: Callable[[], nn.Module]) -> nn.Module:
    """Return a new model, in whose making nothing takes memory that the model does not have in the end.

    Args:
        make: Makes it; called a second time, on the meta device, before.
    """
    try:
        dropped = _dropped(make)
    except Exception:  # noqa: BLE001  # a constructor may need data: then it is made as it is
        return make()
    spare = _Spare(dropped)
    with _observed(spare):
        model = make()
    # A constructor that does otherwise with data than without has got what another was to drop.
    return model if not spare.is_held_by(model) else make()


def _dropped(make: Callable[[], nn.Module]) -> set[int]:
    """Return which of the tensors that modules get while a model is made, counted, it does not have in the end."""
    got: list[torch.Tensor] = []
    with torch.device("meta"), _observed(got.append):
        model = make()
    kept = {id(tensor) for tensor in _tensors(model)}
    return {index for index, tensor in enumerate(got) if id(tensor) not in kept}


@final
class _Spare:
    """Gives tensors that will be dropped one memory for all of the same kind."""

    def __init__(self, dropped: set[int]) -> None:
        self._dropped = dropped
        self._seen = 0
        self._memory: dict[object, torch.Tensor] = {}

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor | None:
        index, self._seen = self._seen, self._seen + 1
        plain = type(tensor) in (nn.Parameter, torch.Tensor) and tensor.layout == torch.strided
        if index not in self._dropped or not plain or not tensor.is_leaf:
            return None
        memory = self._memory.setdefault((tensor.shape, tensor.stride(), tensor.dtype, tensor.device), tensor)
        if memory is tensor:
            return None
        same = memory.detach()
        return nn.Parameter(same, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else same

    def is_held_by(self, model: nn.Module) -> bool:
        """Whether a model has kept any of it."""
        places = {tensor.untyped_storage()._cdata for tensor in self._memory.values()}
        return any(t.layout == torch.strided and t.untyped_storage()._cdata in places for t in _tensors(model))


@contextmanager
def _observed(observer: Observer) -> Iterator[None]:
    """Show an observer each tensor that a module gets in this thread, during the ``with`` block."""
    thread = threading.get_ident()

    def look(_module: nn.Module, _name: str, tensor: Any) -> Any:
        if threading.get_ident() == thread and isinstance(tensor, torch.Tensor):
            return observer(tensor)
        return None

    hooks = register_module_parameter_registration_hook(look), register_module_buffer_registration_hook(look)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _tensors(model: nn.Module) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()
