"""Keeps nodes selected or folded when the document changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.ops import Op, RenameNode


def still_there(paths: Iterable[str], graph: NodeGraph, ops: Sequence[Op]) -> tuple[str, ...]:
    """Return the paths of nodes after `ops`: those that were renamed by their new names, none that is gone.

    Args:
        paths: Full paths of the nodes before.
        graph: The document, after the change.
        ops: The change.
    """
    renames = [op for op in ops if isinstance(op, RenameNode)]
    found = (_renamed(path, graph, renames) if renames else path for path in paths)
    return tuple(path for path in found if path in graph)


def _renamed(path: str, graph: NodeGraph, renames: Sequence[RenameNode]) -> str:
    """Return the path by today's names, part by part: a block that the node is in may have been renamed too."""
    place, today = "", ""
    for name in path.split("."):
        for rename in renames:
            if (rename.graph, rename.name) == (place, name):
                name = rename.new_name
        today = f"{today}.{name}" if today else name
        if today not in graph:
            break
        place = graph[today].definition or ""
    return today
