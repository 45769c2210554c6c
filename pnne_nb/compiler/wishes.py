"""Under which names the author of an imported module keeps what a node gives, if the node has not been renamed."""

from __future__ import annotations

from pnne_nb.graph.node import Node
from pnne_nb.graph.spec import NodeSpec

Wishes = tuple[tuple[str, str], ...]
"""Variables by output port."""

NONE: Wishes = ()


def wishes(node: Node, spec: NodeSpec) -> Wishes:
    """Return the variables that a node's outputs should be kept in."""
    said = node.origin.get("variables") if isinstance(node.origin, dict) else None
    if not isinstance(said, dict):
        return NONE
    found = tuple((port, name) for port, name in said.items() if isinstance(port, str) and isinstance(name, str))
    if spec.kind in ("function", "method") and len(found) == 1 and _is_named(node, found[0][1]):
        return ((found[0][0], node.name),)
    return found


def _is_named(node: Node, variable: str) -> bool:
    """Whether a person has given a function's node a name that is neither the variable's nor its type's."""
    plain = node.name.rstrip("0123456789").rstrip("_")
    return node.name != variable and plain not in (node.type.rstrip("_"), node.type.removeprefix("operator_"))
