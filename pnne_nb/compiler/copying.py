"""Copies modules that ``copy.deepcopy`` refuses: those that keep what they have computed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    for each in computed(module):
        made[id(each)] = each.detach().clone()
    if tensor is not None:
        for each in (*module.parameters(), *module.buffers()):
            value = tensor(each)
            is_parameter = isinstance(each, nn.Parameter)
            made[id(each)] = nn.Parameter(value, requires_grad=each.requires_grad) if is_parameter else value
    return copy.deepcopy(module, made)


@contextmanager
def untouched(module: nn.Module) -> Iterator[None]:
    """Put back what running a copy has changed in a module: its hooks may speak of the original."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    each = list(module.modules())
    if not any(vars(part).get(name) for part in each for name in (*hooks, "forward")):
        yield
        return
    kept = [(vars(part), dict(vars(part))) for part in each]
    held = [
        (value, copy.copy(value))
        for _, attributes in kept
        for value in attributes.values()
        if isinstance(value, (dict, list))
    ]
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        for attributes, before in kept:
            attributes.clear()
            attributes.update(before)
        for value, content in held:
            value.clear()
            value.update(content) if isinstance(value, dict) else value.extend(content)
        with torch.no_grad():
            for buffer, values in buffers:
                buffer.copy_(values)


def computed(module: nn.Module) -> Iterator[torch.Tensor]:
    """Yield the tensors that a module has computed and keeps, which cannot be copied with what they were made from."""
    for each in module.modules():
        own = {name: value for name, value in vars(each).items() if name not in ("_parameters", "_modules")}
        for leaf in pytree.tree_leaves(own):
            if isinstance(leaf, torch.Tensor) and not leaf.is_leaf:
                yield leaf
