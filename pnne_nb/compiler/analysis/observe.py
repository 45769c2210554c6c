"""Records a run operation by operation: random numbers, in-place changes, and the lifetime of each allocation."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pnne_nb.compiler.analysis.interpreter import current_node
from pnne_nb.compiler.analysis.nested_values import tensor_leaves

_WITH_WORKSPACE = frozenset(
    getattr(torch.ops.aten, name)
    for name in ("convolution", "convolution_backward", "_cudnn_rnn", "_cudnn_rnn_backward")
    if hasattr(torch.ops.aten, name)
)
"""Operators whose kernels on CUDA are cuDNN's; a recurrent one also keeps a reserve for its backward pass."""


@final
@dataclass(slots=True, eq=False)
class Allocation:
    """Memory that an operation has allocated.

    Attributes:
        node: Path of the node that made it; ``""`` outside of any, as in the backward pass.
        bytes: Its size.
        device: Where it is.
        born: Number of the operation that made it.
        died: Number of the last operation that ran before it was released; None if it outlived the run.
        users: Paths of the nodes that had a tensor in it.
    """

    node: str
    bytes: int
    device: str
    born: int
    users: set[str]
    died: int | None = None


@final
class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """Records every operation during a ``with`` block (``with Observer() as run: ...``).

    Attributes:
        nodes: By operation, the path of the node that it belongs to; ``""`` outside of any.
        random: Paths of the nodes that use random numbers.
        writing: Paths of the nodes that change memory in place which other nodes use too.
        changed: Paths of the nodes that had a tensor in such memory.
        kept: Allocations, in order.
        during: Path of the node whose backward pass runs; the caller sets it.
        workspaces: Paths of the nodes with kernels of cuDNN, which take memory that no tensor shows.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say
        self.nodes: list[str] = []
        self.random: set[str] = set()
        self.writing: set[str] = set()
        self.changed: set[str] = set()
        self.kept: list[Allocation] = []
        self.during = ""
        self.workspaces: set[str] = set()
        self._by_storage: dict[int, Allocation] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # What is computed again belongs to the node that asked for it, and knows only the end of its path.
        node = self.during or current_node(sys._getframe(1))
        self.nodes.append(node)
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.random.add(node)
        given = [self._kept(tensor) for tensor in tensor_leaves((args, kwargs))]
        result = func(*args, **(kwargs or {}))
        for kept in given:
            kept.users.add(node)
        if func.overloadpacket in _WITH_WORKSPACE and any(kept.device.startswith("cuda") for kept in given):
            self.workspaces.add(node)
        for tensor in tensor_leaves(result):
            self._kept(tensor, node).users.add(node)
        for tensor in _written(func, args, kwargs or {}):
            users = self._kept(tensor).users
            if users != {node}:
                self.writing.add(node)
                self.changed |= users
        return result

    def devices(self) -> set[str]:
        """Return the devices on which memory was taken."""
        return {kept.device for kept in self.kept}

    def live(self, device: str | None = None) -> Iterator[int]:
        """Yield the bytes in use after each operation, on one device or on all."""
        changes = [0] * (len(self.nodes) + 1)
        for kept in self.kept:
            if device is not None and kept.device != device:
                continue
            changes[kept.born] += kept.bytes
            if kept.died is not None:
                changes[kept.died + 1] -= kept.bytes
        total = 0
        for change in changes[:-1]:
            total += change
            yield total

    def _kept(self, tensor: torch.Tensor, maker: str | None = None) -> Allocation:
        storage = tensor.untyped_storage()
        found = self._by_storage.get(id(storage))
        if found is None:
            node, born = maker or "", len(self.nodes) - 1
            found = Allocation(node, storage.nbytes(), str(tensor.device), born, {node})
            self._by_storage[id(storage)] = found
            if maker is not None:
                # Without a maker it is an argument, a parameter or a constant, which was there before.
                self.kept.append(found)
            weakref.finalize(storage, self._released, id(storage), found)
        return found

    def _released(self, storage: int, kept: Allocation) -> None:
        kept.died = len(self.nodes) - 1
        if self._by_storage.get(storage) is kept:
            del self._by_storage[storage]


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the arguments that an operation changes in place."""
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            yield from tensor_leaves(value)
