"""Copies of models and inputs whose tensors have shapes, types and devices but no data, to run without cost."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

_LOGGER = logging.getLogger(fake_tensor.__name__)
"""Writes pages about each operation that refuses its inputs."""


@contextmanager
def imitation(model: nn.Module, inputs: Any) -> Iterator[tuple[nn.Module, Any]]:
    """Give a copy of a model and of its inputs with tensors that hold no data.

    Inside the ``with`` block, operations on them give such tensors too, exactly as large as real ones would be.
    The model and the inputs are left as they are. What depends on data (``tensor.item()``) raises.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = mode.from_tensor(tensor)
        return made

    tensors = [*model.parameters(), *model.buffers()]
    memo: dict[int, Any] = {id(tensor): fake(tensor) for tensor in tensors}
    twin = copy.deepcopy(model, memo)
    given = pytree.tree_map(lambda leaf: fake(leaf) if isinstance(leaf, torch.Tensor) else leaf, inputs)
    level = _LOGGER.level
    _LOGGER.setLevel(logging.CRITICAL)  # what fails is raised as well
    try:
        with mode:
            yield twin, given
    finally:
        _LOGGER.setLevel(level)
