"""Runs nodes inside autocast contexts of the CPU on tensors without data.

Autocast casts no meta tensors; fake tensors of the CPU get the element types that it gives.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from pnne_nb.graph.schema.structural import CONTEXTS
from pnne_nb.graph.schema.values import TorchConstant

_LOGGER = logging.getLogger(fake_tensor.__name__)
"""Writes pages about each operation that refuses its inputs."""


def casts(names: Sequence[str]) -> bool:
    """Return whether contexts cast floating-point tensors on the CPU."""
    found = [name for name in names if name.startswith("autocast cpu")]
    return bool(found) and not found[-1].endswith(" off")


@contextmanager
def casting(contexts: Sequence[str]) -> Iterator[None]:
    """Enter contexts of nodes, for tensors made by `on_cpu`."""
    with unlogged(), FakeTensorMode(allow_non_fake_inputs=True), ExitStack() as stack:
        for context in (CONTEXTS[name] for name in contexts):
            make: Any = getattr(torch, context.target.removeprefix("torch."))
            live = ((k, getattr(torch, v.name) if isinstance(v, TorchConstant) else v) for k, v in context.keywords)
            stack.enter_context(make(*context.arguments, **dict(live)))
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
