"""The one rule of devices, which every function of the package keeps.

Inputs follow the model: they are moved to where its tensors are. What is written to a file is made on the CPU, of a copy: the
user's model stays where it is. Tensors of two devices are compared on the CPU.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from itertools import chain
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from pnne_nb.compiler.analysis.nested_values import tensors_in
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.ops import SetProperty
from pnne_nb.graph.schema.structural import DEVICE

T = TypeVar("T")

CPU: Final = torch.device("cpu")
_NOWHERE = torch.device("meta")
"""It knows shapes only: its tensors have no numbers that could be moved."""


def devices_of(model: nn.Module) -> set[torch.device]:
    """Return every device that holds a parameter or a buffer."""
    return {tensor.device for tensor in chain(model.parameters(), model.buffers())}


def home_of(model: nn.Module) -> torch.device | None:
    """Return the device of the first parameter or buffer, which inputs go to; None of a model without tensors."""
    return next((tensor.device for tensor in chain(model.parameters(), model.buffers())), None)


def following(value: T, model: nn.Module) -> T:
    """Return inputs of `model` where its tensors are: themselves if they are there, else a copy.

    Tensors without numbers stay: they can be moved nowhere.
    """
    home = home_of(model)
    if home is None or all(tensor.device in (home, _NOWHERE) for tensor in tensors_in(value)):
        return value
    moved: T = to_device(value, home)
    return moved


def to_device(value: Any, device: torch.device) -> Any:
    """Return the value with its tensors on `device`, copied before any later operation of that device."""
    match value:
        case Tensor():
            # A copy to the CPU that nobody waits for would be read before it has arrived.
            return value.to(device, non_blocking=device.type != "cpu")
        case Mapping():
            return {key: to_device(item, device) for key, item in value.items()}
        case PackedSequence():
            # Its lengths stay on the CPU. Torch has not typed devices here.
            return value.to(device)  # type: ignore[arg-type]  # a packed sequence takes what a tensor takes
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*(to_device(item, device) for item in value))
        case tuple():
            return tuple(to_device(item, device) for item in value)
        case list():
            return [to_device(item, device) for item in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            moved = copy.copy(value)
            for field in dataclasses.fields(value):
                object.__setattr__(moved, field.name, to_device(getattr(value, field.name), device))
            return moved
        case _:
            return value


def on_cpu(model: nn.Module) -> nn.Module:
    """Return `model` itself if it is on the CPU, else a copy there, without a second one on its device."""
    held = [tensor for part in model.modules() for tensor in tensors_in(list(vars(part).values()))]
    if all(tensor.device in (CPU, _NOWHERE) for tensor in held):
        return model
    return copy.deepcopy(model, {id(tensor): _on_cpu(tensor) for tensor in held})


def _on_cpu(tensor: Tensor) -> Tensor:
    moved = tensor.detach().clone() if tensor.device in (CPU, _NOWHERE) else tensor.detach().to(CPU)
    return nn.Parameter(moved, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else moved


def unplaced(graph: NodeGraph) -> NodeGraph:
    """Return `graph` itself if no node has a device of its own, else a copy in which none has."""
    placed = [
        SetProperty(node.name, DEVICE.name, None, id)
        for id, content in graph.graphs.items()
        for node in content.nodes.values()
        if node.properties.get(DEVICE.name) is not None and DEVICE in node.spec.properties
    ]
    if placed:
        graph = copy.copy(graph)
        graph.apply(placed)
    return graph


def comparable(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Return two tensors on one device: the CPU, if they are on two."""
    return (one, other) if one.device == other.device else (one.cpu(), other.cpu())


def wait_for(device: torch.device | None) -> None:
    """Wait until an accelerator has computed what it was given."""
    if device is not None and device.type not in ("cpu", "meta"):
        torch.accelerator.synchronize(device)
