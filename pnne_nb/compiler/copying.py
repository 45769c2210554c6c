"""Copies modules that ``copy.deepcopy`` refuses: those that keep what they have computed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree


def duplicate(module: nn.Module, tensor: Callable[[torch.Tensor], Any] | None = None) -> nn.Module:
    """Return a deep copy of a module.

    Tensors that it has computed and keeps (an activation, a pruned or normalized weight) are copied without what
    they were computed from, which no copy can keep.

    Args:
        module: It is not changed.
        tensor: Makes what stands for each parameter and buffer; copies if None.
    """
    made: dict[int, Any] = {}
    for each in _computed(module):
        made[id(each)] = each.detach().clone()
    if tensor is not None:
        for each in (*module.parameters(), *module.buffers()):
            value = tensor(each)
            is_parameter = isinstance(each, nn.Parameter)
            made[id(each)] = nn.Parameter(value, requires_grad=each.requires_grad) if is_parameter else value
    return copy.deepcopy(module, made)


def _computed(module: nn.Module) -> Iterator[torch.Tensor]:
    for each in module.modules():
        own = {name: value for name, value in vars(each).items() if name not in ("_parameters", "_modules")}
        for leaf in pytree.tree_leaves(own):
            if isinstance(leaf, torch.Tensor) and not leaf.is_leaf:
                yield leaf
