"""Whole numbers from the browser, which knows no difference between 1 and 1.0."""

from __future__ import annotations

from collections.abc import Sequence

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.ops import Op, SetProperty


def with_floats(graph: NodeGraph, ops: Sequence[Op]) -> tuple[Op, ...]:
    """Return the ops, with the stored value wherever a property is set to the number that it has.

    A view that sends back the 1.0 it was shown says 1, to which torch gives another dtype.
    """
    return tuple(_with_floats(graph, op) if isinstance(op, SetProperty) else op for op in ops)


def _with_floats(graph: NodeGraph, op: SetProperty) -> SetProperty:
    where = graph.graphs.get(op.graph)
    node = where.nodes.get(op.node) if where is not None else None
    if node is None or op.property not in node.properties:
        return op
    stored = node.properties[op.property]
    if not _same(stored, op.value):
        return op
    return SetProperty(op.node, op.property, stored, op.graph)


def _same(stored: object, value: object) -> bool:
    if isinstance(stored, (tuple, list)) and isinstance(value, (tuple, list)):
        alike = type(stored) is type(value) and len(stored) == len(value)
        return alike and all(_same(one, other) for one, other in zip(stored, value, strict=True))
    # Not bool, which equals 0 and 1 as well.
    comparable = type(stored) is type(value) or (isinstance(stored, float) and type(value) is int)
    return comparable and stored == value
