"""Keeps what follows from a document up to date beside the gestures: an edit is answered first, this comes after."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, final

from pnne_nb.compiler import Analysis
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.protocol.messages import Derived

_log: Final = logging.getLogger(__name__)


@final
class Derivation:
    """Shapes, inferred values, findings and parameter counts of one document, told as deltas.

    Args:
        graph: The document.
        tell: Receives the version and the delta of each refresh that found one, one call at a time.
    """

    def __init__(self, graph: NodeGraph, tell: Callable[[int, Derived], None]) -> None:
        self._graph = graph
        self._tell = tell
        self._analysis = Analysis(graph)
        self._refreshing = threading.RLock()
        self._whole = Derived()
        self._starting = threading.Lock()
        self._wanted = False
        self._closed = False
        self._worker: threading.Thread | None = None

    @property
    def whole(self) -> Derived:
        """Everything that has been told."""
        return self._whole

    def request(self) -> None:
        """Have a refresh done soon, in a thread of its own that ends when nothing more is asked for."""
        with self._starting:
            self._wanted = not self._closed
            if self._wanted and self._worker is None:
                self._worker = threading.Thread(target=self._work, name="pnne-derivation", daemon=True)
                self._worker.start()

    def refresh(self) -> None:
        """Bring everything up to date, and tell what has changed, before this returns."""
        with self._refreshing:
            if self._closed:
                return
            version = self._graph.version
            delta = self._analysis.refresh()
            if delta != Derived():
                self._whole = merged(self._whole, delta)
                self._tell(version, delta)

    def close(self) -> None:
        """Stop; a refresh that is under way ends first."""
        with self._starting:
            self._closed, self._wanted = True, False
            worker = self._worker
        self._analysis.close()
        # Inside a transaction the worker may be waiting for this very thread; it ends by itself afterwards.
        if worker is not None and worker is not threading.current_thread() and not self._graph.in_transaction:
            worker.join()

    def _work(self) -> None:
        while True:
            with self._starting:
                if not self._wanted:
                    self._worker = None
                    return
                self._wanted = False
            try:
                self.refresh()
            except Exception as error:  # noqa: BLE001  # a thread of ours must not print under a cell
                # A person must see that what is shown is old; the document itself is fine.
                _log.exception("The analysis of %r failed", self._graph)
                self._report(error)

    def _report(self, error: Exception) -> None:
        finding = Diagnostic(
            code="analysis-failed",
            message=f"Shapes and findings are not up to date: the analysis failed with {type(error).__name__}: {error}",
            hint="Undo the last change, and please report this.",
        )
        delta = Derived(diagnostics={"": (finding,)})
        with self._refreshing:
            self._whole = merged(self._whole, delta)
            self._tell(self._graph.version, delta)


def merged(whole: Derived, delta: Derived) -> Derived:
    """Return `whole` with `delta` taken over."""
    return Derived(
        shapes={path: shape for path, shape in {**whole.shapes, **delta.shapes}.items() if shape is not None},
        resolved={path: values for path, values in {**whole.resolved, **delta.resolved}.items() if values is not None},
        diagnostics={path: found for path, found in {**whole.diagnostics, **delta.diagnostics}.items() if found},
        parameters={
            path: count for path, count in {**whole.parameters, **delta.parameters}.items() if count is not None
        },
    )
