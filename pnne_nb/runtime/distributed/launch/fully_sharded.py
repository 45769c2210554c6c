"""Shards a model with FSDP2: each process keeps a part of every tensor."""

from __future__ import annotations

from collections import Counter
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from pnne_nb.runtime.distributed.step.group import JointStep


@final
class FullySharded:
    """Each process keeps a part of every parameter, gradient and optimizer state (FSDP2's ``fully_shard``)."""

    def prepare(self, model: nn.Module, device: torch.device, joint: JointStep | None = None) -> None:
        """Shard the model; see `Strategy`. Each child's parameters are whole only while it runs."""
        model.to(device)
        uses = Counter(id(parameter) for child in model.children() for parameter in child.parameters())
        for child in model.children():
            parameters = list(child.parameters())
            # A parameter that two children share belongs to neither.
            if parameters and all(uses[id(parameter)] == 1 for parameter in parameters):
                fully_shard(child)
        fully_shard(model)
        if joint is not None:
            # It has no parameters of its own, but a step begins and ends with it.
            fully_shard(joint)

    def gather(self, state: Any) -> Any:
        """Collect every tensor that is in parts; see `Strategy`."""
        match state:
            case DTensor():
                return state.full_tensor().cpu()
            case dict():
                return {key: self.gather(value) for key, value in state.items()}
            case list():
                return [self.gather(value) for value in state]
            case _:
                return state

    def scatter(self, state: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Cut every tensor as the parameter that it belongs to is cut; see `Strategy`."""
        held = model.state_dict()
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        kept, standing = state["optimizer"]["state"], state["standing"]

        def cut(weights: dict[str, Any]) -> dict[str, Any]:
            return {name: _like(value, held.get(name)) for name, value in weights.items()}

        return {
            **state,
            "model": cut(state["model"]),
            "standing": {**standing, "weights": standing["weights"] and cut(standing["weights"])},
            "optimizer": {
                **state["optimizer"],
                "state": {
                    index: {name: _like(value, parameters[index]) for name, value in values.items()}
                    for index, values in kept.items()
                },
            },
        }


def _like(value: Any, held: Any) -> Any:
    if not (isinstance(value, Tensor) and isinstance(held, DTensor) and value.shape == held.shape):
        return value
    return distribute_tensor(value.to(held.device), held.device_mesh, held.placements)
