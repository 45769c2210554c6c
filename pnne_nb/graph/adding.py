"""Adds and places nodes as people ask for it: under a path or a numbered name, at both coordinates or one."""

from __future__ import annotations

from collections.abc import Mapping

from pnne_nb.graph.checking import Types
from pnne_nb.graph.names import numbered, split_path, stem_of
from pnne_nb.graph.ops import AddNode
from pnne_nb.graph.paths import enter
from pnne_nb.graph.registry import require_type
from pnne_nb.graph.state import Content

Position = tuple[float, float]


def addition(
    content: Content,
    types: Types,
    type: str,
    name: str | None,
    properties: Mapping[str, object],
    position: Position | None,
) -> tuple[AddNode, str]:
    """Return the op that adds a node, and the path that the node will have.

    Args:
        content: The document.
        types: The catalogue.
        type: Of the node.
        name: Its name, or a path into a nested graph; numbered by the type if None.
        properties: Its values.
        position: Its centre.

    Raises:
        UnknownTypeError: If the catalogue has no such type.
        UnknownNodeError: If the path leads nowhere.
        IllegalNameError: If the name is no text.
    """
    require_type(types, type)
    prefix, dot, last = ("", "", "") if name is None else split_path(name)
    graph = enter(content, prefix)
    if name is None:
        stem = stem_of(type)
        last = numbered(stem, graph.nodes, graph.next_number(stem))
        graph.used_number(stem, int(last.rpartition(stem)[2]))
    return AddNode(last, type, dict(properties), position, graph.id), f"{prefix}{dot}{last}"


def place(old: Position | None, x: float | None, y: float | None) -> Position | None:
    """Return a place of which one coordinate may be left as it was (0 without a place); None without both."""
    if x is None and y is None:
        return None
    left, top = old or (0.0, 0.0)
    return left if x is None else x, top if y is None else y
