"""The buffers of a model as they were before a step that may have to be undone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import torch
from torch import Tensor


@final
class Snapshot:
    """Copies of `buffers` in memory that is used again for each step: batch norm alone has three a layer.

    Args:
        buffers: The live ones.
    """

    def __init__(self, buffers: Iterable[Tensor]) -> None:
        live: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        for buffer in buffers:
            live.setdefault((buffer.device, buffer.dtype), []).append(buffer)
        self._groups = [(group, [buffer.detach().clone() for buffer in group]) for group in live.values()]

    def take(self) -> None:
        """Keep the values of now."""
        for live, kept in self._groups:
            torch._foreach_copy_(kept, live)

    @torch.no_grad()
    def restore(self) -> None:
        """Put back what was kept."""
        for live, kept in self._groups:
            torch._foreach_copy_(live, kept)
