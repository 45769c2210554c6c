"""The memory of this machine, or of the container that this process is in: the kernel kills what takes more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil  # type: ignore[import-untyped]  # its stubs are a package of their own

GROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows groups of processes, and the limits of each."""

OWN = Path("/proc/self/cgroup")
"""Which groups this process is in."""

_V2 = ("memory.max", "memory.current", "inactive_file")
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


class Memory(NamedTuple):
    """Memory in bytes.

    Attributes:
        total: What there is.
        free: What can still be taken.
    """

    total: int
    free: int


def memory(groups: Path = GROUPS, own: Path = OWN) -> Memory:
    """Return the machine's memory, or less where a container, or any group around this process, has a limit.

    Args:
        groups: See `GROUPS`.
        own: See `OWN`.
    """
    machine = psutil.virtual_memory()
    found = [Memory(int(machine.total), int(machine.available)), *_limits(groups, own)]
    return Memory(min(each.total for each in found), min(each.free for each in found))


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
