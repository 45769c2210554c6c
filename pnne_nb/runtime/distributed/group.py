"""The processes of a group, as each of them sees it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import final

import torch
import torch.distributed as dist
from torch import Tensor

from pnne_nb.runtime.distributed.meeting import meet

_FOR_EVER = timedelta(days=20)
"""A halted training waits as long as it likes: whether the group hangs, the engine decides. Gloo counts milliseconds
in 32 bits: not many days more."""


@final
class Group:
    """All processes that train together. Every call is made by all of them in the same order.

    Args:
        backend: Carries the gradients: ``"gloo"``, ``"nccl"``. Numbers for the loop travel by gloo.
        timeout: Seconds after which a process that waits for the others gives up, or None.

    Attributes:
        rank: Number of this process, from 0.
        count: How many there are.
        present: Whether this process's part of the batch at hand has examples of its own.
    """

    def __init__(self, backend: str, timeout: float | None) -> None:
        self.present = True
        limit = _FOR_EVER if timeout is None else timedelta(seconds=timeout)
        store, self.rank, self.count = meet()
        dist.init_process_group(backend, store=store, rank=self.rank, world_size=self.count, timeout=limit)
        self._numbers = dist.new_group(backend="gloo", timeout=limit)

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return, for each value, the sum over all processes: the same numbers in each of them."""
        numbers = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(numbers, group=self._numbers)
        summed: list[float] = numbers.tolist()
        return summed

    def add(self, tensor: Tensor) -> Tensor:
        """Return the sum over all processes, on the device of `tensor`."""
        summed = tensor.clone()
        dist.all_reduce(summed, group=self._numbers if tensor.device.type == "cpu" else None)
        return summed

    def told(self, text: str) -> str:
        """Return the text of the first process, in each of them."""
        texts = [text]
        dist.broadcast_object_list(texts, src=0, group=self._numbers)
        return texts[0]

    def close(self) -> None:
        """Leave the group."""
        dist.destroy_process_group()
