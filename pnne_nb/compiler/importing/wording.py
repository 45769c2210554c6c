"""Names items after the variables of the traced code, where those tell what they are."""

from __future__ import annotations

from collections import Counter

from pnne_nb.compiler.importing.drafting import Item, Level
from pnne_nb.compiler.variables import GENERIC
from pnne_nb.errors import IllegalNameError
from pnne_nb.graph.names import check_name
from pnne_nb.graph.registry import registry


def is_possible(name: str) -> bool:
    """Whether a node can have a name."""
    try:
        check_name(name)
    except IllegalNameError:
        return False
    return True


def name_by_variables(level: Level) -> None:
    """Have functions and methods bear the names of the variables that hold what they give.

    A name that is used again and again, such as ``x``, is none for a node; but parts of one value keep theirs, which
    tell them apart. Nor is one that another thing has: an argument, a submodule, another type of node.
    """
    uses = Counter(name for item in level.items for name in item.variables.values())
    taken = {item.name for item in level.items if item.type in ("Input", "Output")}
    taken |= {
        name for group in (level.holder._parameters, level.holder._buffers, level.holder._modules) for name in group
    }
    for item in level.items:
        name = _wish(item)
        is_plain = name not in GENERIC and uses[name] == 1
        if (
            name
            and name not in taken
            and (is_plain or item.part)
            and is_possible(name)
            and not _means_other(name, item)
        ):
            item.name = name
        taken.update(item.variables.values())


def _wish(item: Item) -> str:
    """Return the variable of an item that may be named after it, or nothing."""
    spec = registry.get(item.type)
    if spec is None or spec.kind not in ("function", "method") or len(item.variables) != 1:
        return ""
    return next(iter(item.variables.values()))


def _means_other(name: str, item: Item) -> bool:
    """Whether a name is that of another type of node."""
    return name != item.type and (name in registry or f"operator_{name}" in registry)
