"""Where a model's tensors are: on one device, or on those that its nodes ask for."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import nn

from pnne_nb.compiler.compiling import load
from pnne_nb.graph.document import NodeGraph


def placed_paths(model: nn.Module | NodeGraph) -> frozenset[str]:
    """Paths of the layers whose nodes have a device; none for a plain module."""
    return frozenset(load(model).generated.devices) if isinstance(model, NodeGraph) else frozenset()


def settle(model: nn.Module, device: torch.device, placed: Collection[str]) -> bool:
    """Move to `device`, in place, what has no place of its own.

    A plain module whose parameters are on several devices already stays as it is.

    Args:
        model: Moved in place.
        device: Where batches and the loss are.
        placed: Paths of layers that stay where they are.

    Returns:
        Whether the model is on several devices now.
    """
    if not placed and len(devices_of(model)) <= 1:
        model.to(device)
        return False
    if placed:
        for path, layer in model.named_modules():
            if not _is_within(path, placed):
                # Its own tensors only: parts of it may have places.
                layer._apply(lambda tensor: tensor.to(device), recurse=False)
    return devices_of(model) != {device}


def devices_of(model: nn.Module) -> set[torch.device]:
    """Every device that holds a parameter or a buffer."""
    return {tensor.device for tensor in (*model.parameters(), *model.buffers())}


def _is_within(path: str, placed: Collection[str]) -> bool:
    parts = path.split(".")
    return any(".".join(parts[: count + 1]) in placed for count in range(len(parts)))
