"""Keeps shapes, findings and costs of a document up to date in a thread, after edits are answered."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import ClassVar, Final, final

import msgspec

from pnne_nb.compiler import IncrementalAnalysis
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.layout.cards import Resolved
from pnne_nb.graph.render.scene import FULL_DETAIL, Shapes
from pnne_nb.process.fork import fork_safe
from pnne_nb.process.idle import OutOfDateError, idle_work
from pnne_nb.protocol.messages import Consequence, Derived, TensorShape

_log: Final = logging.getLogger(__name__)

_PARTS: Final = ("shapes", "resolved", "diagnostics", "costs")
"""The parts of `Derived` that have an entry for each port or node."""

PIECE: Final = 400
"""Most entries of a delta in one message: some 40 kB."""

Tell = Callable[[int, Derived, bool], None]
"""Takes the version, the changes, and whether more of them follow."""


@final
class LiveAnalysis:
    """Shapes, inferred values, findings and parameter counts of one document, published as deltas.

    All editors of a document share one, from `of`. It works only while it has followers.
    """

    _shared: ClassVar[weakref.WeakValueDictionary[int, LiveAnalysis]] = weakref.WeakValueDictionary()

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self._analysis: IncrementalAnalysis | None = None  # None: nobody follows
        self._followers: tuple[Tell, ...] = ()
        self._refreshing = fork_safe(threading.RLock())
        self._whole = Derived()
        self._starting = fork_safe(threading.Lock())  # guards what is above and below
        self._wanted = False
        self._worker: threading.Thread | None = None

    @classmethod
    def of(cls, graph: NodeGraph) -> LiveAnalysis:
        """Return the document's analysis; editors of one document share it while one of them lives."""
        with graph.reading():
            # It holds its graph, so that no other graph gets the same id while the entry lives.
            return cls._shared.setdefault(id(graph), cls(graph))

    @property
    def whole(self) -> Derived:
        """All results so far; the value never changes."""
        with self._starting:
            parts = {name: dict(getattr(self._whole, name)) for name in _PARTS}
            return msgspec.structs.replace(self._whole, **parts)

    def follow(self, tell: Tell) -> Callable[[], None]:
        """Call `tell` with the version and the delta of each refresh that changed something, one call at a time.

        A large delta comes in pieces.

        Returns:
            A function that unsubscribes; it waits for a running refresh.
        """
        with self._starting:
            self._followers = (*self._followers, tell)
            if self._analysis is None:
                self._analysis, self._whole = IncrementalAnalysis(self._graph), Derived()
        return partial(self._leave, tell)

    def request(self) -> None:
        """Start a refresh soon, in a thread that ends when there are no further requests."""
        with self._starting:
            self._wanted = self._analysis is not None
            if self._wanted and self._worker is None:
                self._worker = threading.Thread(target=self._work, name="pnne-derivation", daemon=True)
                self._worker.start()

    def refresh(self) -> None:
        """Update everything and publish the changes before this returns."""
        with self._refreshing:
            analysis = self._analysis
            if analysis is None:
                with IncrementalAnalysis(self._graph) as alone:
                    delta = alone.refresh()
                with self._starting:
                    self._whole = Derived(example=delta.example)
                    _take_over(self._whole, delta)
                return
            version = self._graph.version
            delta = analysis.refresh()
            if delta != Derived():
                self._take(analysis, version, delta)

    def known(self, *, refreshed: bool) -> tuple[Shapes, Resolved]:
        """Return the shapes at ports and the inferred values at nodes, updated first if `refreshed`."""
        if refreshed:
            self.refresh()
        derived = self.whole
        shapes = {
            port: TensorShape(each.named or each.shape, each.dtype) for port, each in derived.shapes.items() if each
        }
        return shapes, {node: values for node, values in derived.resolved.items() if values is not None}

    def picture(self) -> str:
        """Draw the document as HTML with its current shapes."""
        # Larger documents are drawn without shapes, whose analysis would delay the cell.
        shapes, resolved = self.known(refreshed=len(self._graph.nodes) <= FULL_DETAIL)
        return self._graph.to_html(shapes=shapes, resolved=resolved)

    def preview(self, source: str, target: str) -> Consequence:
        """Return the effect of an edge between two ports; without followers, nothing is known."""
        analysis = self._analysis
        return Consequence() if analysis is None else analysis.preview(source, target)

    def _take(self, analysis: IncrementalAnalysis | None, version: int, delta: Derived) -> None:
        with self._starting:
            if analysis is not self._analysis:
                return  # no follower is left
            _take_over(self._whole, delta)
            if delta.example is not None:
                self._whole = msgspec.structs.replace(self._whole, example=delta.example)
            followers = self._followers
        found = list(pieces(delta))
        for place, piece in enumerate(found, 1):
            for tell in followers:
                tell(version, piece, place < len(found))

    def _leave(self, tell: Tell) -> None:
        with self._starting:
            self._followers = tuple(follower for follower in self._followers if follower is not tell)
            if self._followers or self._analysis is None:
                return
            analysis, self._analysis = self._analysis, None
            self._wanted = False
            worker = self._worker
        analysis.close()
        # The worker may be waiting for this thread's transaction; it ends by itself afterwards.
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
                # No follower is left.
                with idle_work(lambda: self._wanted or self._analysis is None):
                    self.refresh()
            except OutOfDateError:
                continue  # with the requests made since
            except Exception as error:  # noqa: BLE001  # a thread of ours must not print under a cell
                # The user must see that shapes and findings are outdated; the document itself is fine.
                _log.exception("The analysis of %r failed", self._graph)
                self._report(error)

    def _report(self, error: Exception) -> None:
        finding = Diagnostic(
            code="analysis-failed",
            message=f"Shapes and findings are not up to date: the analysis failed with {type(error).__name__}: {error}",
            hint="Undo the last change, and please report this.",
        )
        with self._refreshing:
            self._take(self._analysis, self._graph.version, Derived(diagnostics={"": (finding,)}))


def _take_over(whole: Derived, delta: Derived) -> None:
    """Apply a delta to the results in place; most deltas are small."""
    for name in _PARTS:
        known = getattr(whole, name)
        for path, value in getattr(delta, name).items():
            if value:
                known[path] = value
            else:
                known.pop(path, None)


def pieces(delta: Derived) -> Iterator[Derived]:
    """Split a delta into messages of at most `PIECE` entries, so that thousands of changes do not block other messages."""
    if sum(len(getattr(delta, name)) for name in _PARTS) <= PIECE:
        yield delta
        return
    example = delta.example
    for name in _PARTS:
        entries = iter(getattr(delta, name).items())
        while piece := dict(islice(entries, PIECE)):
            yield Derived(**{name: piece}, example=example)
            example = None
