"""`LiveModel`: recompiles an editor's document after edits and keeps the weights."""

from __future__ import annotations

import threading
from typing import final

from torch import nn

from pnne_nb.compiler.pipeline.compile import made
from pnne_nb.compiler.weights.weight_source import keep_latest, weakly
from pnne_nb.errors import CompileError
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.registry import registry
from pnne_nb.process.fork import fork_safe


@final
class LiveModel:
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
