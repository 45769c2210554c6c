"""Whether the weights of a model fit into memory, before they are made: a layer that does not may kill the kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from math import prod

import torch
from torch import nn

from pnne_nb.compiler.machine import memory
from pnne_nb.compiler.program import (
    Argument,
    Chain,
    Constant,
    Construction,
    Layer,
    Member,
    Nested,
    Opaque,
    Unit,
    Weight,
)
from pnne_nb.errors import CompileError, Diagnostic

HARMLESS = 2**30
"""Models whose weights cannot take more bytes than this are not looked at."""


def require_room(unit: Unit, make: Callable[[], nn.Module], absent: Collection[str] = ()) -> None:
    """See whether the weights that a model would make on the CPU fit into memory.

    Args:
        unit: The program.
        make: Makes the model; it is called on the meta device, where weights take no memory.
        absent: Paths of what has no data in the model either.

    Raises:
        CompileError: If they do not: with the largest node, what it takes and what is free.
    """
    if torch.get_default_device().type != "cpu" or (at_most := bound(unit)) <= HARMLESS:
        return
    free = memory().free
    if at_most <= free:
        return
    with torch.device("meta"):
        sizes = {path: size for path, size in _sizes(make()) if path not in absent}
    needed = sum(sizes.values())
    if needed <= free:
        return
    largest = max(sizes, key=lambda path: sizes[path])
    beside = "" if len(sizes) == 1 else f", those of the whole model {said(needed)}"
    diagnostic = Diagnostic(
        code="too-large",
        message=f"Its weights take {said(sizes[largest])}{beside}, and {said(free)} of memory are free.",
        node=largest or None,
        hint="Make it smaller, or look at it without weights: give the node device='meta', or compile the graph "
        "with torch.device('meta').",
    )
    raise CompileError(str(diagnostic), [diagnostic])


def said(count: int) -> str:
    """Return a number of bytes in words."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB")):
        if count >= 2**power:
            return f"{count / 2**power:.1f} {unit}"
    return f"{count} bytes"


def _sizes(model: nn.Module) -> Iterator[tuple[str, int]]:
    """Yield the bytes that the parameters and buffers of each part take, by its path; what is tied counts once."""
    counted: set[torch.Tensor] = set()
    for path, module in model.named_modules():
        own = {*module.parameters(recurse=False), *module.buffers(recurse=False)} - counted
        counted |= own
        if size := sum(tensor.numel() * tensor.element_size() for tensor in own):
            yield path, size


def bound(unit: Unit) -> int:
    """Return how many bytes the weights of a document take at most, or nearly so, without making a layer."""
    inside: dict[str, int] = {}
    layers: dict[int, int] = {}  # equal ones share one construction
    for id, program in unit.programs.items():
        inside[id] = sum(_bound_of(member, inside, layers) for member in program.members)
    return inside[""]


def _bound_of(member: Member, inside: Mapping[str, int], layers: dict[int, int]) -> int:
    match member:
        case Layer():
            construction = member.construction
            key = id(construction)
            if key not in layers:
                sizes = list(_numbers(construction))
                # A kernel counts once for each dimension, the state of a recurrent layer twice.
                layers[key] = 16 * prod(sizes) * max(sizes, default=0)
            return layers[key]
        case Weight(shape=shape):
            return 8 * prod(shape)
        case Nested(definition=definition) | Opaque(definition=definition) if definition:
            return inside[definition]
        case Chain(members=members):
            return sum(_bound_of(each, inside, layers) for each in members)
    return 0


def _numbers(argument: Argument) -> Iterator[int]:
    """Yield the whole numbers above one among the arguments of a constructor."""
    match argument:
        case Construction(_, arguments, keywords):
            for each in (*arguments, *(value for _, value in keywords)):
                yield from _numbers(each)
        case Constant(value):
            for each in value if isinstance(value, (tuple, list)) else (value,):
                if type(each) is int and each > 1:
                    yield each
