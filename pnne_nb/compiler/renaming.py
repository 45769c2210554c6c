"""Follows what the nodes of a document were called, so that a renamed node keeps its weights.

A document knows its nodes by their names alone. Each document that was compiled or imported is therefore observed:
which node was renamed since a model was made of it.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import final

from torch import nn

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.node import Transaction
from pnne_nb.graph.ops import RenameNode


@final
class _Track:
    """The renamings of one document, in order."""

    def __init__(self, graph: NodeGraph) -> None:
        self.graph = weakref.ref(graph)
        self.renamed: list[RenameNode] = []
        graph.observe(self.note)

    def note(self, transaction: Transaction) -> None:
        self.renamed += [op for op in transaction.ops if isinstance(op, RenameNode)]


_tracks: dict[int, _Track] = {}
"""By the identity of the document, for documents are not hashable."""

_made: weakref.WeakKeyDictionary[nn.Module, tuple[_Track, int]] = weakref.WeakKeyDictionary()
"""How far a document had been renamed when a model was made of it."""


def follow(graph: NodeGraph) -> None:
    """Keep track of the renamings of a document from now on."""
    _track(graph)


def remember(model: nn.Module, graph: NodeGraph) -> None:
    """Note that a model has just been made of a document."""
    track = _track(graph)
    _made[model] = track, len(track.renamed)


def former_paths(graph: NodeGraph, model: nn.Module) -> dict[str, str]:
    """Return the paths that the modules of renamed nodes have in an older model, by their paths now.

    A path that meanwhile belongs to a new node is mapped to an empty text.

    Args:
        graph: The document as it is now.
        model: Made of it, or the module that it was imported from.
    """
    track = _track(graph)
    known, since = _made.get(model, (track, 0))
    renamed = track.renamed[since:] if known is track else []
    if not renamed:
        return {}
    found: dict[str, str] = {}
    _collect(graph, "", "", "", _by_graph(renamed), found)
    return found


def _track(graph: NodeGraph) -> _Track:
    track = _tracks.get(id(graph))
    if track is None or track.graph() is not graph:
        identity = id(graph)
        track = _tracks[identity] = _Track(graph)
        weakref.finalize(graph, _tracks.pop, identity, None)
    return track


def _by_graph(renamed: list[RenameNode]) -> dict[str, list[RenameNode]]:
    found: dict[str, list[RenameNode]] = {}
    for op in renamed:
        found.setdefault(op.graph, []).append(op)
    return found


def _collect(
    graph: NodeGraph, id: str, now: str, before: str, renamed: Mapping[str, list[RenameNode]], found: dict[str, str]
) -> None:
    nodes = graph.graphs[id].nodes
    former = {name: _former(name, renamed.get(id, [])) for name in nodes}
    moved = {old for name, old in former.items() if old != name}
    for name, node in nodes.items():
        if isinstance(node.origin, dict) and "held" in node.origin:
            continue  # its module has a path of its own
        old = "" if former[name] == name and name in moved else former[name]
        path = f"{before}{old}" if old else ""
        if old != name or now != before:
            found[f"{now}{name}"] = path
        if node.definition is not None and node.definition in graph.graphs and old:
            _collect(graph, node.definition, f"{now}{name}.", f"{path}.", renamed, found)


def _former(name: str, renamed: list[RenameNode]) -> str:
    for op in reversed(renamed):
        if op.new_name == name:
            name = op.name
    return name
