"""Whether looking has changed anything: what a model is, and what would be drawn next."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks_with_kwargs",
)


@contextmanager
def untouched(net: nn.Module) -> Iterator[None]:
    """Assert that `net`, torch's functions and all random states are the same after the block, also after an error."""
    for number, parameter in enumerate(net.parameters()):
        parameter.grad = None if number % 2 else torch.full_like(parameter, 0.5)
    net.train()
    before = _state(net)
    try:
        yield
    finally:
        after = _state(net)
        for one, other in zip(before[0], after[0], strict=True):
            assert one == other
        for one, other in zip(before[1], after[1], strict=True):
            assert torch.equal(one, other)


def _state(net: nn.Module) -> tuple[list[object], list[Tensor]]:
    tensors = list(chain(net.parameters(), net.buffers()))
    gradients = [parameter.grad for parameter in net.parameters()]
    same: list[object] = [id(tensor) for tensor in tensors]
    same += [None if gradient is None else id(gradient) for gradient in gradients]
    same += [(name, module.training, sorted(vars(module))) for name, module in net.named_modules()]
    same += [tuple(getattr(module, hooks)) for module in net.modules() for hooks in _HOOKS]
    same += [random.getstate(), np.random.get_state()[1].tolist()]  # type: ignore[index]  # noqa: NPY002
    same += [torch.is_grad_enabled(), F.linear, torch.softmax, nn.Module.__call__, torch.backends.cudnn.enabled]
    values = [tensor.detach().clone() for tensor in chain(tensors, (g for g in gradients if g is not None))]
    return same, [*values, torch.get_rng_state()]
