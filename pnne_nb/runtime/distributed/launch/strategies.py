"""Defines how several processes hold one model: each a copy of it, or each a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, final

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from pnne_nb.runtime.distributed.step.group import JointStep

STRATEGIES = ("ddp", "fsdp")


class Strategy(Protocol):
    """Prepares a model, whose values are the same in every process, for being trained by all of them."""

    def prepare(
        self, model: nn.Module, device: torch.device, joint: JointStep | None = None
    ) -> Callable[..., Any] | None:
        """Turn `model`, in place, into what each process keeps of it on `device`.

        If the step is a step function's, it is made with the model as `joint`.

        Returns:
            What runs in training in the place of the model, or of the step; None if that is itself.
        """

    def gather(self, state: Any) -> Any:
        """Return the state of a loop with whole tensors on the CPU; every process must ask."""

    def scatter(self, state: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the reverse: the state of a loop as `model` and `optimizer` hold it in this process."""


@final
class Replicated:
    """Each process has the whole model; gradients are averaged by DistributedDataParallel, which takes the `options`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        # Not every drawn layer needs to lead to the loss.
        self._options = {"find_unused_parameters": True, **options}

    def prepare(self, model: nn.Module, device: torch.device, joint: JointStep | None = None) -> Callable[..., Any]:
        """Wrap the model, or the step; see `Strategy`."""
        devices = None if device.type == "cpu" else [device]
        return DistributedDataParallel((joint or model).to(device), device_ids=devices, **self._options)

    def gather(self, state: Any) -> Any:
        """Do nothing: every process has the whole model."""
        return state

    def scatter(self, state: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Do nothing: every process has the whole model."""
        del model, optimizer
        return state


def strategy(name: str, options: Mapping[str, Any] = MappingProxyType({})) -> Strategy:
    """Return the strategy of that name, one of `STRATEGIES`, with options of DistributedDataParallel for ``"ddp"``."""
    if name == "ddp":
        return Replicated(options)
    from pnne_nb.runtime.distributed.launch.fully_sharded import FullySharded  # noqa: PLC0415  # slow to import, and seldom wanted

    return FullySharded()
