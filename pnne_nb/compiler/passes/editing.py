"""Edits that several passes make to a subject's graph."""

from __future__ import annotations

from collections.abc import Iterable

from pnne_nb.compiler.passes.base import Subject
from pnne_nb.graph.node import split_port
from pnne_nb.graph.ops import Connect, Disconnect, Op


def rewire(subject: Subject, graph: str, sources: dict[str, str]) -> None:
    """Let everything that was fed by one output be fed by another.

    Args:
        subject: Whose graph to edit.
        graph: The graph that holds the nodes.
        sources: New outputs (``"node.port"``) by old ones.
    """
    ops: list[Op] = []
    for source, target in subject.graph.graphs[graph].edges:
        if source in sources:
            ops += [Disconnect(source, target, graph), Connect(sources[source], target, graph)]
    subject.graph.apply(ops)


def remove(subject: Subject, graph: str, names: Iterable[str]) -> None:
    """Remove nodes, and the definitions that nothing shows any more."""
    prefix = subject.prefixes[graph][0]
    paths = [f"{prefix}{name}" for name in names]
    if paths:
        subject.graph.remove(*paths)


def consumers(subject: Subject, graph: str, node: str) -> list[tuple[str, str]]:
    """Return what a node of the given document feeds, as (node, port), each as often as it does."""
    return [split_port(edge.target) for edge in subject.graph.graphs[graph].consumers(node)]


def borrowed(subject: Subject, graph: str) -> set[str]:
    """Return the nodes whose module or tensors other nodes use."""
    found: set[str] = set()
    for node in subject.drawings[graph].nodes.values():
        if node.shares is not None:
            found.add(node.shares)
        of = node.properties.get("of")
        if isinstance(of, str):
            found.add(of.partition(".")[0])
    return found
