"""Finds the document for an editor's arguments, and recompiles it after edits with the weights that it had."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from torch import Tensor, nn

from pnne_nb import compiler
from pnne_nb.compiler.pipeline.compile import made
from pnne_nb.compiler.weights.weight_source import keep_latest, weakly
from pnne_nb.errors import ArgumentError, CompileError, shown
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.ops import Op, RenameNode
from pnne_nb.graph.schema.registry import registry
from pnne_nb.process.fork import fork_safe


def document_of(
    graph: object,
    args: Sequence[Any] | Tensor,
    kwargs: Mapping[str, Any] | None,
    input_size: Sequence[int] | Sequence[Sequence[int]] | None,
) -> NodeGraph | compiler.UnprovedImport:
    """Return the document to edit, or an import of it that is drawn; see `GraphEditor` for arguments and errors."""
    if isinstance(graph, nn.Module):
        if isinstance(args, tuple) and not args and not kwargs and input_size is None:
            raise ArgumentError(
                "A module is imported by a call: pn.GraphEditor(net, args=(x,)) with an example x of its input, or "
                "pn.GraphEditor(net, input_size=(2, 3))."
            )
        return compiler.UnprovedImport(graph, args, kwargs, input_size)
    if graph is None:
        graph = NodeGraph()
    if not isinstance(graph, NodeGraph):
        loaded = f"pn.NodeGraph.load({shown(str(graph))})" if isinstance(graph, str | Path) else "pn.NodeGraph()"
        raise ArgumentError(f"A GraphEditor edits a NodeGraph, not a {type(graph).__name__}: pn.GraphEditor({loaded}).")
    if not isinstance(args, tuple) or args or kwargs or input_size is not None:
        raise ArgumentError(
            "args, kwargs and input_size belong to a module that is imported: pn.GraphEditor(net, args=(x,))."
        )
    return graph


def still_there(paths: Iterable[str], graph: NodeGraph, ops: Sequence[Op]) -> tuple[str, ...]:
    """Return the paths of nodes after `ops`, with new names and without deleted nodes.

    Args:
        paths: Full paths of the nodes before.
        graph: The document, after the change.
        ops: The change.
    """
    renames = [op for op in ops if isinstance(op, RenameNode)]
    found = (_renamed(path, graph, renames) if renames else path for path in paths)
    return tuple(path for path in found if path in graph)


def _renamed(path: str, graph: NodeGraph, renames: Sequence[RenameNode]) -> str:
    """Return the path with current names, part by part, because the block around the node may have been renamed too."""
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


@final
class EditedModel:
    """The module of a document.

    Args:
        graph: The document.
        imported: The module that the document was imported from, whose weights it keeps.

    Attributes:
        is_imported: Whether there is such a module.
    """

    def __init__(self, graph: NodeGraph, imported: nn.Module | None) -> None:
        self.is_imported = imported is not None
        self._graph = graph
        self._lock = fork_safe(threading.RLock())
        self._imported, self._latest = imported, imported
        self._current: nn.Module | None = None
        self._compiled: tuple[int, int] | None = None
        self._edits = 0

    @property
    def latest(self) -> nn.Module | None:
        """The last module that could be compiled, or the imported one."""
        return self._latest

    @property
    def current(self) -> nn.Module | None:
        """The module of the last compilation; None if it failed."""
        return self._current

    def edited(self) -> None:
        """Record that an edit changed what the document computes."""
        self._edits += 1

    def compile(self) -> nn.Module | None:
        """Return the module of the current document, the same one until `edited`; None while the document has errors."""
        with self._lock:
            state = self._edits, registry.revision
            if state != self._compiled:
                try:
                    found = made(self._graph, purpose="show", instead=self._latest)
                except CompileError:
                    self._current = None
                else:
                    self._current = self._latest = found.model
                    if not found.lost:
                        keep_latest(self._graph, "shown", "the editor's model", weakly(found.model))
                self._compiled = state
            return self._current

    def forget(self) -> None:
        """Release all modules."""
        self._imported = self._latest = self._current = self._compiled = None
