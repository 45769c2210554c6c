"""Tries an import after ``.bfloat16()`` and ``.double()``, and in an autocast: it must compute what the module then computes.

Nothing else finds tensors whose element type the module's code fixes, and which the import would convert with the weights.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils import _pytree as pytree

from pnne_nb.compiler.weights.deepcopy import duplicate

DTYPES = (torch.bfloat16, torch.float64)
"""Element types that are tried."""

MAX_DOUBLED = 2**26
"""Elements of all parameters beyond which float64 is not tried, to save memory."""

MAX_CONVERTED = 2**22
"""Elements of all parameters beyond which large ones have few different numbers at first, to save memory."""

LARGE = 2**16
"""Elements from which on a parameter is large."""


_METHODS = {torch.bfloat16: "bfloat16", torch.float16: "half", torch.float64: "double"}


class Converted(NamedTuple):
    """A module, its import, and inputs, all of another element type, or in an autocast to one.

    Attributes:
        dtype: The element type, as in ``torch.bfloat16``.
        net: A copy of the module.
        model: A copy of the model that the import compiles to, which shares the converted parameters.
        inputs: Arguments by position and by name.
        around: Makes the context of the calls.
        said: What is tried, in words.
        whole: Makes the same with all numbers of large parameters, if these have only few here.
    """

    dtype: torch.dtype
    net: nn.Module
    model: nn.Module
    inputs: tuple[tuple[Any, ...], dict[str, Any]]
    around: Callable[[], AbstractContextManager[Any]]
    said: str
    whole: Callable[[], Converted] | None = None


def converted(
    net: nn.Module, model: nn.Module, inputs: Any, originals: Mapping[int, torch.Tensor], *, typed: bool = False
) -> Iterator[Converted]:
    """Yield a module and its import in each of `DTYPES` and in an autocast; nothing for modules that this would harm.

    Args:
        net: The module.
        model: The model that its import compiles to.
        inputs: The inputs of a call.
        originals: The parameters of `net` by the identity of the equal ones of `model`.
        typed: Whether its code asks for element types: float16 is tried too then.
    """
    tensors = [*net.parameters(), *net.buffers()]
    if any(isinstance(part, torch.jit.ScriptModule) or "_orig_mod" in part._modules for part in net.modules()):
        return  # copies of scripted modules share what they would convert, and torch.compile would compile again
    if any(each.is_meta or each.is_quantized or each.layout != torch.strided for each in tensors):
        return
    device = next((each.device.type for each in tensors), "cpu")
    kept = {**{id(each): each for each in originals.values()}, **originals}  # what its code may change is copied
    halves = (torch.bfloat16, torch.float16) if typed else (torch.bfloat16,)
    for dtype in halves if torch.amp.is_autocast_available(device) else ():
        one, other = (
            duplicate(each, lambda tensor: kept[id(tensor)].detach() if id(tensor) in kept else None)
            for each in (net, model)
        )
        around = functools.partial(torch.autocast, device, dtype)
        yield Converted(dtype, one, other, inputs, around, f"in an autocast to {dtype}")
    size = sum(parameter.numel() for parameter in net.parameters())
    for dtype in (*DTYPES, torch.float16) if typed else DTYPES:
        if dtype is torch.float64 and size > MAX_DOUBLED:
            continue

        def made(least: int, dtype: torch.dtype = dtype) -> Converted:
            share = _sharing(dtype, originals, least)
            # A module may have a method of its own that does more than convert its tensors.
            copies = duplicate(net, share), duplicate(model, share)
            one, other = (getattr(each, _METHODS[dtype])() for each in copies)
            cast = pytree.tree_map(lambda leaf: _cast(leaf, dtype), inputs)
            return Converted(dtype, one, other, cast, nullcontext, f"converted to {dtype}")

        if size <= MAX_CONVERTED:
            yield made(size + 1)
        else:
            yield made(LARGE)._replace(whole=functools.partial(made, size + 1))


def _sharing(
    dtype: torch.dtype, originals: Mapping[int, torch.Tensor], least: int
) -> Callable[[torch.Tensor], torch.Tensor | None]:
    """Return a function that converts parameters, each once for all modules; those of `least` elements or more become few."""
    known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def convert(tensor: torch.Tensor) -> torch.Tensor | None:
        if type(tensor) is not nn.Parameter:
            return None
        tensor = originals.get(id(tensor), tensor)
        if id(tensor) not in known:
            few = tensor.numel() >= least and tensor.is_floating_point() and tensor.is_contiguous()
            known[id(tensor)] = tensor, (_few if few else _cast)(tensor.detach(), dtype)
        return known[id(tensor)][1].detach()

    return convert


def _few(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of the same shape in which each row begins one number later, in the memory of a few rows.

    Shape:
        - tensor: `[*]`, any shape with at least one dimension; the result has the same.
    """
    count = sum(size - 1 for size in tensor.shape) + 1
    return torch.as_strided(tensor.view(-1)[:count].to(dtype), tensor.shape, (1,) * tensor.dim())


def _cast(leaf: Any, dtype: torch.dtype) -> Any:
    is_number = isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided and leaf.is_floating_point()
    return leaf.to(dtype) if is_number else leaf
