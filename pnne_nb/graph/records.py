"""A document as plain data: exactly what a ``.pnne.json`` file holds and what a browser receives.

Property values are in their JSON form (``graph.values``).
"""

from __future__ import annotations

import msgspec

from pnne_nb.graph.frame import Frame


class NodeState(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A node as the file has it; property values in their JSON form."""

    name: str
    type: str
    properties: dict[str, object] = {}
    position: tuple[float, float] | None = None
    origin: object = None
    collapsed: bool = False


class EdgeState(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An edge, from output ``"node.port"`` to input ``"node.port"``."""

    source: str
    target: str


class GraphState(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """One graph: nodes in their order, edges in theirs, frames by name."""

    nodes: tuple[NodeState, ...] = ()
    edges: tuple[EdgeState, ...] = ()
    frames: tuple[Frame, ...] = ()


class DocumentState(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A whole document, exactly as a ``.pnne.json`` file holds it.

    Attributes:
        graphs: ``""`` is the root; the others are definitions of Subgraph nodes.
    """

    format: str
    format_version: int
    name: str
    graphs: dict[str, GraphState]
