"""Tries an import after ``.bfloat16()`` and ``.double()``: it must compute what the module then computes.

Only this finds tensors whose element type the module's code fixes, and which the import would convert with the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.weights.deepcopy import duplicate

DTYPES = (torch.bfloat16, torch.float64)
"""Element types that are tried."""

MAX_DOUBLED = 2**26
"""Elements of all parameters beyond which float64 is not tried, for its memory."""


class Converted(NamedTuple):
    """A module, its import, and inputs, all of another element type.

    Attributes:
        dtype: The element type, as in ``torch.bfloat16``.
        net: A copy of the module.
        model: A copy of what the import compiles to, which shares the converted parameters.
        inputs: Arguments by position and by name.
    """

    dtype: torch.dtype
    net: nn.Module
    model: nn.Module
    inputs: tuple[tuple[Any, ...], dict[str, Any]]


def converted(net: nn.Module, model: nn.Module, inputs: Any) -> Iterator[Converted]:
    """Yield a module and its import in each of `DTYPES`; nothing for modules that cannot be converted without harm."""
    tensors = [*net.parameters(), *net.buffers()]
    if any(isinstance(part, torch.jit.ScriptModule) or "_orig_mod" in part._modules for part in net.modules()):
        return  # copies of scripted modules share what they would convert, and torch.compile would compile again
    if any(each.is_meta or each.is_quantized or each.layout != torch.strided for each in tensors):
        return
    size = sum(parameter.numel() for parameter in net.parameters())
    for dtype in DTYPES:
        if dtype is torch.float64 and size > MAX_DOUBLED:
            continue
        share = _sharing(dtype)
        # What a module does besides converting its tensors, in a method of its own, is done too.
        copies = duplicate(net, share), duplicate(model, share)
        one, other = (each.double() if dtype is torch.float64 else each.bfloat16() for each in copies)
        yield Converted(dtype, one, other, pytree.tree_map(lambda leaf, to=dtype: _cast(leaf, to), inputs))


def _sharing(dtype: torch.dtype) -> Callable[[torch.Tensor], Any]:
    """Return a function that converts parameters, each once for all modules that have it."""
    made: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}

    def convert(tensor: torch.Tensor) -> Any:
        if type(tensor) is not nn.Parameter:
            return None
        key = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
        if key not in made:
            made[key] = tensor, _cast(tensor.detach(), dtype)
        return made[key][1].detach()

    return convert


def _cast(leaf: Any, dtype: torch.dtype) -> Any:
    is_number = isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.is_floating_point()
    return leaf.to(dtype) if is_number else leaf
