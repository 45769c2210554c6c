"""Keeps a model in train or eval mode between batches, and saves its buffers for undoing a step."""

from __future__ import annotations

from collections.abc import Iterable
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


@final
class Modes:
    """Holds a model in train or eval mode, and its buffers as they were before the step under way."""

    def __init__(self) -> None:
        self.buffers = BufferSnapshot(())
        self._modes: list[tuple[nn.Module, bool]] = []

    def set(self, model: nn.Module, *, training: bool) -> None:
        """Set every layer of `model` to train or eval mode, and keep it there."""
        model.train(training)
        self._modes = [(module, module.training) for module in model.modules()]
        self.buffers = BufferSnapshot(model.buffers())

    def restore(self) -> None:
        """Undo what a cell's ``model.eval()`` did since the last batch."""
        for module, training in self._modes:
            if module.training is not training:
                module.training = training
