"""Keeps a model in train or eval mode between batches, and saves its buffers for undoing a step."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import final

import torch
from torch import Tensor, nn


@final
class BufferSnapshot:
    """Copies of live `buffers` in memory that is reused for each step; batch norm alone has three per layer."""

    def __init__(self, buffers: Iterable[Tensor]) -> None:
        live: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for buffer in buffers:
            live.setdefault((buffer.device, buffer.dtype), []).append(buffer)
        self._groups = [(group, [buffer.detach().clone() for buffer in group]) for group in live.values()]

    def take(self) -> None:
        for live, kept in self._groups:
            torch._foreach_copy_(kept, live)

    @torch.no_grad()
    def restore(self) -> None:
        for live, kept in self._groups:
            torch._foreach_copy_(live, kept)


_mode_of = attrgetter("training")
"""In C: it is asked for every layer before every batch."""


@final
class Modes:
    """Holds a model in train or eval mode, and its buffers as they were before the step under way."""

    def __init__(self) -> None:
        self.buffers = BufferSnapshot(())
        self._modules: list[nn.Module] = []
        self._modes: list[bool] = []

    def set(self, model: nn.Module, *, training: bool) -> None:
        """Set every layer of `model` to train or eval mode, and keep it there."""
        model.train(training)
        self._modules = list(model.modules())
        self._modes = list(map(_mode_of, self._modules))
        self.buffers = BufferSnapshot(model.buffers())

    @property
    def are_kept(self) -> bool:
        """Whether every layer is in its mode."""
        return list(map(_mode_of, self._modules)) == self._modes

    def restore(self) -> None:
        """Undo what a cell's ``model.eval()`` did since the last batch."""
        if not self.are_kept:
            for module, training in zip(self._modules, self._modes, strict=True):
                module.training = training
