"""The processes of a group: their rendezvous, their collective operations, and their joint step."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from pnne_nb.runtime.objective.step_logs import StepFunction

_FOR_EVER = timedelta(days=20)
"""A halted training waits as long as it likes: whether the group hangs, the engine decides. Gloo counts milliseconds
in 32 bits: not many days more."""


@final
class ProcessGroup:
    """All processes that train together, see `Peers`. All of them make the same calls in the same order.

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

    def total(self, value: float) -> float:
        return self.sum([value])[0]

    def any(self, fact: bool) -> bool:
        return self.sum([float(fact)])[0] > 0

    def add(self, tensor: Tensor) -> Tensor:
        """Return the sum over all processes, on the device of `tensor`."""
        summed = tensor.clone()
        dist.all_reduce(summed, group=self._numbers if tensor.device.type == "cpu" else None)
        return summed

    def told(self, text: str) -> str:
        """Return the first process's text in all processes."""
        texts = [text]
        dist.broadcast_object_list(texts, src=0, group=self._numbers)
        return texts[0]

    def close(self) -> None:
        """Leave the group."""
        dist.destroy_process_group()


@final
class JointStep(nn.Module):
    """A step function as a module, which is given `model`.

    It may call the model as often as it likes, or parts of it. DistributedDataParallel averages what follows from one
    call of the module that it wraps, and FSDP2 begins and ends with one: so that call is the whole step.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._function: StepFunction | None = None

    def made_by_all(self, function: StepFunction, trained: Callable[..., Any] | None) -> StepFunction:
        """Return the step function, as the processes make it together.

        Args:
            function: May know parameters, which exist only when the model is prepared.
            trained: What runs in the place of this module, if it is not itself; see `Strategy.prepare`.
        """
        self._function = function
        differentiated = self if trained is None else trained

        def step(model: nn.Module, raw: Any) -> Any:
            assert model is self.model
            return differentiated(raw) if torch.is_grad_enabled() else self(raw)

        return step

    def forward(self, raw: Any) -> Any:
        """Return what the function returns for one raw batch."""
        assert self._function is not None
        return self._function(self.model, raw)


_LOOK_EVERY = 0.02
"""Seconds."""


def meet() -> tuple[Store, int, int]:
    """Join the process group that torchrun has started; return its store, the number of this process, and how many there are."""
    store, rank, count = next(iter(rendezvous("env://")))
    return own_part(store, rank, count), rank, count


def own_part(store: Store, rank: int, count: int) -> Store:
    """Return the part of `store` that belongs to this start of a group, and to no earlier one.

    torchrun lends the same store to every start (torch 2.13): there, a process that is started again may read where
    one of the dead has listened, and never reach anybody. Called by every process of the group.
    """
    name = secrets.token_hex(8)
    store.set(f"pnne/here/{rank}", name)
    if rank == 0:
        _call_roll(store, name, count)
        start = name
    else:
        start = _answer(store, name, rank)
    return PrefixStore(f"pnne/{start}", store)


def _call_roll(store: Store, start: str, count: int) -> None:
    """Tell everybody the name of this start; those who are not there yet may still be read as they were before."""
    answers = [f"pnne/{start}/seen/{rank}" for rank in range(1, count)]
    while answers and not store.check(answers):
        present = [store.get(f"pnne/here/{rank}").decode() for rank in range(count)]
        store.set("pnne/roll", " ".join(present))
        time.sleep(_LOOK_EVERY)


def _answer(store: Store, name: str, rank: int) -> str:
    """Return the name of the start on whose roll this process is: that of the process that calls it."""
    while True:
        start, *others = store.get("pnne/roll").decode().split()
        if name in others:
            store.set(f"pnne/{start}/seen/{rank}", "")
            return start
        time.sleep(_LOOK_EVERY)
