"""Finds the devices of a model's tensors: one device, or those that its nodes ask for."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn

from pnne_nb.compiler.pipeline.compile import load
from pnne_nb.errors import TrainingError
from pnne_nb.graph.document import NodeGraph

_NOWHERE = torch.device("meta")


def placed_paths(model: nn.Module | NodeGraph) -> frozenset[str]:
    """Return the paths of layers whose nodes have a device; empty for a plain module."""
    return frozenset(load(model).generated.devices) if isinstance(model, NodeGraph) else frozenset()


def settle(model: nn.Module, device: torch.device, placed: Collection[str]) -> bool:
    """Move all tensors to `device`, in place, but for layers at the paths `placed`; return whether there are several devices.

    A plain module whose parameters are on several devices already stays as it is.

    Raises:
        TrainingError: The model has shapes only, and no numbers.
    """
    if not placed and len(found := devices_of(model)) <= 1:
        if found == {_NOWHERE} != {device}:
            raise TrainingError(
                "The model's parameters have no numbers: they are on the device 'meta', which knows shapes only. Make room "
                'by model.to_empty(device="cpu"), and fill it by load_state_dict or by each layer\'s reset_parameters().'
            )
        model.to(device)
        return False
    if placed:
        for path, layer in model.named_modules():
            if not _is_within(path, placed):
                # Its own tensors only: parts of it may have places.
                layer._apply(lambda tensor: tensor.to(device), recurse=False)
    return devices_of(model) != {device}


def devices_of(model: nn.Module) -> set[torch.device]:
    """Return every device that holds a parameter or a buffer."""
    return {tensor.device for tensor in (*model.parameters(), *model.buffers())}


def _is_within(path: str, placed: Collection[str]) -> bool:
    parts = path.split(".")
    return any(".".join(parts[: count + 1]) in placed for count in range(len(parts)))
