"""Compares gradients of large parameters by checksums: two modules with all of their gradients take too much memory."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import nn

from pnne_nb.process.gc_pause import return_free_memory

LARGE = 2**12
"""Elements from which on a gradient is kept as a checksum."""

FREED = 2**23
"""Bytes of gradients after which free memory is given back: they leave holes between activations."""


def parameter_bytes(module: nn.Module) -> int:
    """Return how much memory the parameters of a module take."""
    return sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())


@contextmanager
def collected(
    one: nn.Module, other: nn.Module, *, whole: bool, few: bool = False
) -> Iterator[tuple[Gradients, Gradients]]:
    """Collect the gradients of two modules in this block (`Gradients`)."""
    found = Gradients(one, whole=whole, few=few), Gradients(other, whole=whole, few=few)
    try:
        yield found
    finally:
        for each in found:
            each.close()


@final
class Gradients:
    """The gradients that backward passes give the parameters of a module, a copy that nobody else uses.

    Args:
        module: The module.
        whole: Whether all are kept as they are, rather than large ones as checksums.
        few: Whether large ones repeat few numbers: these are never written out.
    """

    def __init__(self, module: nn.Module, *, whole: bool, few: bool = False) -> None:
        self._module = module
        self._bytes = parameter_bytes(module)
        self._sums: dict[int, list[tuple[object, ...]]] = {}
        self._hooks: list[Any] = []
        self._empty: set[int] = set()
        self._freed = 0
        for parameter in () if whole else module.parameters():
            is_plain = type(parameter) is nn.Parameter and parameter.is_leaf and parameter.requires_grad
            if is_plain and parameter.numel() >= LARGE and parameter.device.type == "cpu":
                hook = parameter.register_post_accumulate_grad_hook(self._add)  # type: ignore[no-untyped-call]  # torch does not say
                self._hooks.append(hook)
                if few:
                    before = functools.partial(self._before, parameter)
                    self._hooks.append(parameter.register_hook(before))  # type: ignore[no-untyped-call]  # torch does not say

    def close(self) -> None:
        """Remove the hooks: Python's garbage collection does not find a module that has them."""
        for hook in self._hooks:
            hook.remove()

    def _before(self, parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor | None:
        """Add a gradient that repeats few numbers, and give the parameter one in memory that nobody touches."""
        storage = gradient.untyped_storage()
        if gradient.layout != torch.strided or gradient.numel() * gradient.element_size() <= storage.nbytes():
            return None
        octets: Any = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
        kind = gradient.shape, gradient.dtype, gradient.stride(), gradient.storage_offset()
        self._sums.setdefault(id(parameter), []).append((*kind, zlib.crc32(octets)))
        self._empty.add(id(parameter))
        return torch.empty_like(parameter, requires_grad=False)

    def _add(self, parameter: torch.Tensor) -> None:
        if id(parameter) in self._empty:
            self._empty.discard(id(parameter))
            parameter.grad = None
            return
        gradient = parameter.grad
        if gradient is None or type(gradient) is not torch.Tensor or gradient.layout != torch.strided:
            return
        octets: Any = gradient.detach().contiguous().view(torch.uint8).numpy()
        self._sums.setdefault(id(parameter), []).append((gradient.shape, gradient.dtype, zlib.crc32(octets)))
        self._freed += octets.nbytes
        parameter.grad = gradient = octets = None
        if self._freed >= FREED:
            self._freed = 0
            return_free_memory(self._bytes)

    def named(self, prefix: str = "") -> dict[str, Any]:
        """Return the gradient or the checksums of each parameter."""
        # Copies of scripted modules have parameters that are computed.
        return {
            f"{prefix}{name}": self._sums.get(id(each), each.grad if each.is_leaf else None)
            for name, each in self._module.named_parameters()
        }
