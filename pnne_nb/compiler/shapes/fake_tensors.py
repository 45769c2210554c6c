"""Runs models and functions on fake tensors, which have a shape and an element type but no data."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import nn
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from pnne_nb.compiler.ir.node_settings import entered

_LOGGER = logging.getLogger(fake_tensor.__name__)
"""Writes pages about each operation that refuses its inputs."""


@contextmanager
def imitation(model: nn.Module, inputs: Any) -> Iterator[tuple[nn.Module, Any]]:
    """Provide copies of a model and of its inputs with fake tensors.

    Inside the ``with`` block, operations on them give such tensors too, exactly as large as real ones would be.
    The model and the inputs are left as they are. What depends on data (``tensor.item()``) raises.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = mode.from_tensor(tensor)
        return made

    tensors = [*model.parameters(), *model.buffers()]
    memo: dict[int, Any] = {id(tensor): fake(tensor) for tensor in tensors}
    twin = without_counting(copy.deepcopy(model, memo))
    given = pytree.tree_map(lambda leaf: fake(leaf) if isinstance(leaf, torch.Tensor) else leaf, inputs)
    with unlogged(), mode, _OneCpu():
        yield twin, given


@final
class _OneCpu(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not say
    """Has fake tensors of ``cpu:0`` on ``cpu``: those with data are told apart by nothing, and fake ones could not be mixed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch does not say

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        device = given.get("device")
        if isinstance(device, torch.device) and device.type == "cpu":
            given = {**given, "device": torch.device("cpu")}
        return func(*args, **given)


def without_counting(module: nn.Module) -> nn.Module:
    """Let batch normalisation without data run without its batch counter, and return the module."""
    for part in module.modules():
        if isinstance(part, _BatchNorm) and part.momentum is None:  # the average of all batches
            part.momentum = 0.0
    return module


@contextmanager
def casting(contexts: Sequence[str]) -> Iterator[None]:
    """Enter autocast contexts of the CPU, for tensors made by `on_cpu`."""
    with unlogged(), FakeTensorMode(allow_non_fake_inputs=True), entered(contexts):
        yield


def on_cpu(value: Any) -> Any:
    """Return a value with its meta tensors as fake CPU tensors; for use inside `casting`."""

    def moved(leaf: Any) -> Any:
        return torch.empty_like(leaf, device="cpu") if isinstance(leaf, torch.Tensor) else leaf

    return pytree.tree_map(moved, value)


def cast(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], contexts: Sequence[str]) -> Any:
    """Return the result of a function on meta tensors, with the element types that autocast gives."""
    placed = {name: "cpu" if name == "device" else value for name, value in kwargs.items()}

    def plain(leaf: Any) -> Any:
        return torch.empty(leaf.shape, dtype=leaf.dtype, device="meta") if isinstance(leaf, torch.Tensor) else leaf

    with torch._C.DisableTorchFunction():  # whoever watches torch's functions has nothing to see here
        with casting(contexts):
            args, placed = on_cpu((tuple(args), placed))
            found = function(*args, **placed)
        return pytree.tree_map(plain, found)


@contextmanager
def unlogged() -> Iterator[None]:
    """Have torch write nothing about operations on fake tensors that refuse their inputs in this block."""
    level = _LOGGER.level
    _LOGGER.setLevel(logging.CRITICAL)  # what fails is raised as well
    try:
        yield
    finally:
        _LOGGER.setLevel(level)
