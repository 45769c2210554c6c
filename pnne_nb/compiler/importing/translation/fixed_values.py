"""Which parameters of an imported module are tables, and the shortest form of their values."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

LOOKED_AT = 1_000_000
"""Elements that are looked at, at most."""

ROUGHNESS = {12: 0.3, 48: 1.0}
"""Squared steps along an axis, relative to the variance, below which a table is smooth, by its least number of values.

Of independent values it is 2 on average, and the fewer they are, the farther it may be from that by chance.
"""


def is_table(tensor: Tensor) -> bool:
    """Return whether a parameter has values that nobody draws.

    It is not trained, or its values repeat, rise or fall from one end to the other, or follow each other smoothly, as do
    an identity, ``log(arange(n))`` and a table of sines.
    """
    if not tensor.requires_grad:
        return True
    tensor = torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor
    found = tensor.detach().flatten()[:LOOKED_AT].double()
    if len(found) < 2 or not bool(torch.isfinite(found).all()):
        return False
    if _distinct(found) < 0.9 * len(found):
        return True
    steps = found.diff()
    if _has_one_sign(steps) and (len(found) >= 8 or (len(found) >= 4 and _has_one_sign(steps.diff()))):
        return True
    return any(_is_smooth(tensor.detach(), axis) for axis in range(tensor.dim()))


def _distinct(values: Tensor) -> int:
    """Return how many different numbers there are; NumPy sorts several times as fast as torch. Shape: `[n]`, `n > 0`."""
    in_order = np.sort(values.cpu().numpy())
    return 1 + int(np.count_nonzero(in_order[1:] != in_order[:-1]))


def _has_one_sign(values: Tensor) -> bool:
    return bool((values > 0).all()) or bool((values < 0).all())


def _is_smooth(tensor: Tensor, axis: int) -> bool:
    along = tensor.movedim(axis, 0)
    limit = max((limit for fewest, limit in ROUGHNESS.items() if along.numel() >= fewest), default=0.0)
    if len(along) < 3 or not limit:
        return False
    along = along.reshape(len(along), -1)[:, : max(1, LOOKED_AT // len(along))].double()
    spread = float((along - along.mean(0)).square().mean())
    return spread > 0 and float(along.diff(dim=0).square().mean()) < limit * spread


def is_identity(tensor: Tensor) -> bool:
    """Return whether a matrix is ``torch.eye``."""
    if tensor.dim() != 2 or min(tensor.shape) < 2 or tensor.count_nonzero() != min(tensor.shape):
        return False
    return bool((tensor.diagonal() == 1).all())


def without_repeats(tensor: Tensor) -> Tensor:
    """Return a tensor with size 1 in the axes along which it repeats, of which ``expand`` gives the original."""
    for axis in range(tensor.dim()):
        first = tensor.narrow(axis, 0, 1)
        if tensor.shape[axis] > 1 and torch.equal(first.expand_as(tensor), tensor):
            tensor = first
    return tensor
