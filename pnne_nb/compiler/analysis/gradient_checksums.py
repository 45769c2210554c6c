"""Compares gradients of large parameters by checksums: two modules with all of their gradients take too much memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import nn

from pnne_nb.compiler.analysis.dispatch_modes import Digests
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
    one: nn.Module, other: nn.Module, *, whole: bool, digests: Digests | None = None
) -> Iterator[tuple[Gradients, Gradients]]:
    """Collect the gradients of two modules in this block (`Gradients`)."""
    found = Gradients(one, whole=whole, digests=digests), Gradients(other, whole=whole, digests=digests)
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
        digests: What the checksums of large ones are taken of where some are not computed.
    """

    def __init__(self, module: nn.Module, *, whole: bool, digests: Digests | None = None) -> None:
        self._module = module
        self._bytes = parameter_bytes(module)
        self._sums: dict[int, list[tuple[object, ...]]] = {}
        self._hooks: list[Any] = []
        self._digests = digests or Digests()
        self._freed = 0
        for parameter in () if whole else module.parameters():
            is_plain = type(parameter) is nn.Parameter and parameter.is_leaf and parameter.requires_grad
            if is_plain and parameter.numel() >= LARGE and parameter.device.type == "cpu":
                hook = parameter.register_post_accumulate_grad_hook(self._add)  # type: ignore[no-untyped-call]  # torch does not say
                self._hooks.append(hook)

    def close(self) -> None:
        """Remove the hooks: Python's garbage collection does not find a module that has them."""
        for hook in self._hooks:
            hook.remove()

    def _add(self, parameter: torch.Tensor) -> None:
        gradient = parameter.grad
        if gradient is None or type(gradient) is not torch.Tensor or gradient.layout != torch.strided:
            return
        self._freed += gradient.nbytes if self._digests.is_written(gradient) else 0
        kind = gradient.shape, gradient.dtype, self._digests.content(gradient)
        self._sums.setdefault(id(parameter), []).append(kind)
        parameter.grad = gradient = None
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
