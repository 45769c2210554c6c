"""Checks that the weights of a model fit into memory before they are allocated: a failure may kill the kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own
import torch
from torch import nn

from pnne_nb.compiler.ir.program import Argument, Constant, Construction, Layer, Member, Nested, Opaque, Unit, Weight
from pnne_nb.compiler.shapes.scope import available_devices
from pnne_nb.errors import CompileError, Diagnostic
from pnne_nb.process.byte_units import format_bytes

HARMLESS = 2**30
"""Models whose weights cannot take more bytes than this are not looked at."""


GROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows groups of processes, and the limits of each."""

OWN = Path("/proc/self/cgroup")
"""Which groups this process is in."""

_V2 = ("memory.max", "memory.current", "inactive_file")

_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def require_room(unit: Unit, make: Callable[[], nn.Module], absent: Collection[str] = ()) -> None:
    """Refuse a model whose weights, but for the `absent` ones, do not fit into the memory of the CPU.

    `make` makes the model; it is called on the meta device, where weights take no memory.

    Raises:
        CompileError: If they do not: with the largest node, what it takes and what is free.
    """
    if (at_most := bound(unit)) <= HARMLESS or torch.get_default_device().type != "cpu":
        return
    free = memory().free
    if at_most <= free:
        return
    with torch.device("meta"):
        model = make()
    sizes = {path: size for path, size in _sizes(model) if path not in absent}
    # A constructor knows nothing of ties: each tied layer first allocates a weight of its own.
    tied = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    needed = sum(sizes.values()) + sum(_bytes(tied[kept]) for _, kept in unit.root.ties if kept in tied)
    if needed <= free:
        return
    largest = max(sizes, key=lambda path: sizes[path])
    beside = "" if needed == sizes[largest] else f", those of the whole model {format_bytes(needed)}"
    diagnostic = Diagnostic(
        code="too-large",
        message=f"Its weights take {format_bytes(sizes[largest])}{beside}, and {format_bytes(free)} of memory are free.",
        node=largest or None,
        hint="Make it smaller, or compile it without data: give the node device='meta', or compile the graph "
        "with torch.device('meta').",
    )
    raise CompileError(str(diagnostic), [diagnostic])


def _sizes(model: nn.Module) -> Iterator[tuple[str, int]]:
    """Yield the bytes that the parameters and buffers of each part take, by its path; what is tied counts once."""
    counted: set[torch.Tensor] = set()
    for path, module in model.named_modules():
        own = {*module.parameters(recurse=False), *module.buffers(recurse=False)} - counted
        counted |= own
        if size := sum(map(_bytes, own)):
            yield path, size


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def bound(unit: Unit) -> int:
    """Return how many bytes the weights of a document take at most, or nearly so, without making a layer."""
    inside: dict[str, int] = {}
    layers: dict[int, int] = {}  # equal ones share one construction
    for id, program in unit.programs.items():
        inside[id] = sum([_bound_of(member, inside, layers) for member in program.members])
    return inside[""]


def _bound_of(member: Member, inside: Mapping[str, int], layers: dict[int, int]) -> int:
    if type(member) is Layer:
        key = id(member.construction)
        found = layers.get(key)
        if found is None:
            sizes = list(_numbers(member.construction))
            # A kernel counts once for each dimension, the state of a recurrent layer twice.
            found = layers[key] = 16 * prod(sizes) * max(sizes, default=0)
        return found
    match member:
        case Weight(shape=shape):
            return 8 * prod(shape)
        case Nested(definition=definition) | Opaque(definition=definition) if definition:
            return inside[definition]
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


class Memory(NamedTuple):
    """Memory in bytes.

    Attributes:
        total: What there is.
        free: What can still be taken.
    """

    total: int
    free: int


def memory(groups: Path = GROUPS, own: Path = OWN) -> Memory:
    """Return the machine's memory, or less where a container, or any group around this process, has a limit."""
    machine = psutil.virtual_memory()
    found = [Memory(int(machine.total), int(machine.available)), *_limits(groups, own)]
    return Memory(min(each.total for each in found), min(each.free for each in found))


def free_memory() -> dict[str, int]:
    """Return the free bytes of every device of this machine that says how many it has, the CPU first."""
    accelerators = [name for name in available_devices() if name.split(":")[0] not in {"cpu", "mps"}]
    free = {name: int(torch.accelerator.get_memory_info(torch.device(name))[0]) for name in accelerators}
    return {"cpu": memory().free, **free}


def _limits(groups: Path, own: Path) -> Iterator[Memory]:
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return  # no Linux
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top, names = (groups / "memory", _V1) if controllers else (groups, _V2)
        place = top / path.lstrip("/")
        # Inside a container its own group is the top, whatever path the machine outside has for it.
        for group in (place, *place.parents):
            if group.is_relative_to(top):
                with suppress(OSError, ValueError, KeyError):  # no limit, or none that is shown
                    yield _limit(group, *names)


def _limit(group: Path, limit: str, used: str, cache: str) -> Memory:
    total = int((group / limit).read_text())  # "max" is none
    statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    # Pages of files that nobody has used for long are given up before anything is killed.
    taken = int((group / used).read_text()) - int(statistics[cache])
    return Memory(total, max(0, total - taken))
