"""Names nodes after the variables of the traced code, which are read from its bytecode: ``q, k, v = f(x).chunk(3, -1)``.

Instructions differ between versions of Python. Where none is recognised, a node has no such name; nothing else changes.
"""

from __future__ import annotations

import dis
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FrameType
from typing import TypeAlias

from pnne_nb.compiler.importing.draft.draft import Item, Level
from pnne_nb.compiler.ir.variables import GENERIC
from pnne_nb.errors import IllegalNameError
from pnne_nb.graph.schema.names import check_name
from pnne_nb.graph.schema.registry import registry

RETURNED = object()
"""Says that the code returns the value at once, so that its caller may store it."""

Stored: TypeAlias = "str | tuple[str, ...] | object"
"""A variable; a tuple with one for each unpacked part, empty where there is none; or `RETURNED`."""

_NOTHING = ("CACHE", "COPY", "EXTENDED_ARG", "NOP", "NOT_TAKEN")
"""Instructions that leave the value on top of the stack; a copy is for another variable."""


def stored(frame: FrameType) -> Stored:
    """Return the variable that stores the result of the current instruction of a frame; empty if there is none."""
    return _table(frame.f_code).get(frame.f_lasti, "")


def parts(frame: FrameType) -> int | None:
    """Return how many values the code unpacks from the result: ``rows, columns = torch.where(mask)``."""
    found = stored(frame)
    return len(found) if isinstance(found, tuple) else None


@lru_cache(maxsize=1_000)
def _table(code: CodeType) -> dict[int, Stored]:
    """Return the variables by offset of the instruction; the caches behind an instruction count as that instruction."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in _NOTHING]
    table: dict[int, Stored] = {}
    for place, (step, following) in enumerate(pairwise(steps), start=1):
        found: Stored
        if step.opname == "UNPACK_SEQUENCE":
            found = tuple(_taken(_stores(steps[place:]), step.argval))
        elif following.opname == "RETURN_VALUE":
            found = RETURNED
        else:
            first = next(_stores(steps[place : place + 1]), "")
            found = first if isinstance(first, str) else ""
        if found:
            table.update(dict.fromkeys(range(step.offset, following.offset), found))
    return table


def _stores(steps: list[dis.Instruction]) -> Iterator[str | int]:
    """Yield the variables that instructions store to, and the number of parts before each unpacking."""
    for step in steps:
        match step.opname, step.argval:
            case ("STORE_FAST" | "STORE_DEREF", str(name)):
                yield name
            case ("STORE_FAST_STORE_FAST", (str(one), str(other))):
                yield one
                yield other
            case ("STORE_FAST_LOAD_FAST", (str(name), _)):
                yield name
                return
            case ("UNPACK_SEQUENCE", int(count)):
                yield count
            case _:
                return


def _taken(stores: Iterator[str | int], count: int) -> Iterator[str]:
    """Yield the variable of each part; a part that is unpacked itself has none."""
    for _ in range(count):
        found = next(stores, "")
        if isinstance(found, int):
            list(_taken(stores, found))
        yield found if isinstance(found, str) else ""


def is_possible(name: str) -> bool:
    """Return whether a node can have this name."""
    try:
        check_name(name)
    except IllegalNameError:
        return False
    return True


def name_by_variables(level: Level) -> None:
    """Name functions and methods after the variables that hold their results.

    A name that the code uses several times, such as ``x``, is not taken, except for the parts of one value, which it
    distinguishes. Nor is the name of an argument, a submodule, or another type of node.
    """
    uses = Counter(name for item in level.items for name in item.variables.values())
    taken = {item.name for item in level.items if item.type in ("Input", "Output")}
    taken |= {
        name for group in (level.holder._parameters, level.holder._buffers, level.holder._modules) for name in group
    }
    for item in level.items:
        name = _wish(item)
        is_plain = name not in GENERIC and uses[name] == 1
        # A name can be that of another type of node.
        is_type = name != item.type and (name in registry or f"operator_{name}" in registry)
        if name and name not in taken and (is_plain or item.part) and is_possible(name) and not is_type:
            item.name = name
        taken.update(item.variables.values())


def _wish(item: Item) -> str:
    """Return the variable of an item that may be named after it, or nothing."""
    spec = registry.get(item.type)
    if spec is None or spec.kind not in ("function", "method") or len(item.variables) != 1:
        return ""
    return next(iter(item.variables.values()))
