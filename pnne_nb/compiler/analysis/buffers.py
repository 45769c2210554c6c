"""Keeps the buffers of a model as they are while it runs: some models count their calls, or average what they see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def kept_buffers(model: nn.Module) -> Iterator[set[str]]:
    """Put back the buffers of a model after the block: their values, and the tensors themselves.

    Yields:
        A set, which then holds the paths of the buffers that were changed.
    """
    before = [
        (f"{path}.{name}" if path else name, part, name, buffer, buffer.detach().clone())
        for path, part in model.named_modules()
        for name, buffer in part._buffers.items()
        if buffer is not None
    ]
    changed: set[str] = set()
    try:
        yield changed
    finally:
        with torch.no_grad():
            for path, part, name, buffer, values in before:
                now = part._buffers.get(name)
                if now is not buffer or not _same(buffer, values):
                    if now is None or not _same(now, values):
                        changed.add(path)
                    part._buffers[name] = buffer
                    buffer.copy_(values)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        type(one) is type(other)
        and one.shape == other.shape
        and one.dtype == other.dtype
        and torch.equal(one.nan_to_num(), other.nan_to_num())
    )
