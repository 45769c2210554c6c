"""Under which names code stores what its calls give, read from its bytecode: ``q, k, v = self.qkv(x).chunk(3, -1)``.

Versions of Python differ in their instructions. Where nothing is recognised there is no name, and nothing else changes.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from types import CodeType, FrameType
from typing import TypeAlias

RETURNED = object()
"""What is given is returned at once: the caller stores it, or not."""

Stored: TypeAlias = "str | tuple[str, ...] | object"
"""A variable, one for each part of what is taken apart (empty where there is none), or `RETURNED`."""

_NOTHING = ("CACHE", "COPY", "EXTENDED_ARG", "NOP", "NOT_TAKEN")
"""Instructions that leave what was given where it is; a copy of it is for another variable."""


def stored(frame: FrameType) -> Stored:
    """Return where the code of a frame stores what the instruction gives at which it stands; empty: nowhere."""
    return _table(frame.f_code).get(frame.f_lasti, "")


def parts(frame: FrameType) -> int | None:
    """Return how many values the code takes that iterates: ``rows, columns = torch.where(mask)``."""
    found = stored(frame)
    return len(found) if isinstance(found, tuple) else None


@lru_cache(maxsize=1_000)
def _table(code: CodeType) -> dict[int, Stored]:
    """Return what is stored where, by offset; an instruction also has those of the cache behind it."""
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
    """Yield the variables that instructions store to, and the number of parts of what they take apart before."""
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
    """Yield the variable of each part; one that is itself taken apart has none."""
    for _ in range(count):
        found = next(stores, "")
        if isinstance(found, int):
            list(_taken(stores, found))
        yield found if isinstance(found, str) else ""
