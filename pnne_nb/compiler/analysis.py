"""What Python works out about a document while it is edited, told as deltas.

An `Analysis` follows one document. After each edit it looks again at what was touched and at what lies behind
that and really changed; `refresh` says what is different from the last time.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self, final

import msgspec

from pnne_nb.compiler.reading import Drawing, read
from pnne_nb.compiler.scopes import Scope, Symbols
from pnne_nb.compiler.shapes import TensorSpec, symbols_of, tensor_specs
from pnne_nb.compiler.trying import trials
from pnne_nb.errors import Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.node import Transaction
from pnne_nb.graph.ops import MoveNode, Op, RenameDocument, ResetProperty, SetProperty
from pnne_nb.graph.registry import registry
from pnne_nb.graph.values import Value, to_json
from pnne_nb.protocol.messages import Derived, TensorShape

_STRUCTURAL_PROPERTIES = ("definition", "shares")


@final
class Analysis:
    """Shapes, inferred sizes, findings and parameter counts of one document, kept up to date.

    Methods may be called from any thread. Close it, or use it as a context manager, to stop following the
    document.

    Args:
        graph: The document to follow; it is only read.
    """

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self._lock = threading.RLock()
        self._noting = threading.Lock()  # guards `_pending`
        self._pending: list[Op] | None = None  # None: read everything anew
        self._drawings: dict[str, Drawing] = {}
        self._symbols: Symbols = {}
        self._root: Scope | None = None
        self._facts = _Facts()
        self._told = _Facts()
        self._changed: set[str] = set()
        self._version = -1
        self._unsubscribe = (graph.observe(self._note), registry.observe(self._reset))

    def close(self) -> None:
        """Stop following the document."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def refresh(self) -> Derived:
        """Bring everything up to date; return what has changed since the last call (at first: everything)."""
        with self._lock:
            self._update()
            delta = self._facts.since(self._told)
            self._told = self._facts.copy()
            return delta

    @property
    def shapes(self) -> dict[str, TensorSpec]:
        """What every output port gives, by path."""
        with self._lock:
            self._update()
            return dict(self._facts.shapes)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Every finding, those of the document itself and those of shapes."""
        with self._lock:
            self._update()
            return [diagnostic for found in self._facts.diagnostics.values() for diagnostic in found]

    @property
    def resolved(self) -> dict[str, dict[str, Value]]:
        """Inferred values of properties that are ``"auto"``, by node path."""
        with self._lock:
            self._update()
            return {path: dict(values) for path, values in self._facts.resolved.items()}

    @property
    def parameters(self) -> dict[str, int]:
        """Number of trainable and frozen parameters by node path, for nodes that have any."""
        with self._lock:
            self._update()
            return dict(self._facts.parameters)

    def _note(self, done: Transaction) -> None:
        # Not under the lock that a long `refresh` holds: whoever edits meanwhile must not wait for it.
        with self._noting:
            if self._pending is not None:
                self._pending.extend(done.ops)

    def _reset(self, _: object) -> None:
        with self._lock, self._noting:
            self._pending, self._root = None, None

    def _update(self) -> None:
        # The document's lock is taken before its version is read, and given back before anything is tried.
        with self._graph.reading(), self._noting:
            if self._graph.version == self._version and self._pending == []:
                return
            ops, self._pending = self._pending, []
            self._version = self._graph.version
            dirty = self._redraw(ops)
            found = self._graph.diagnostics()
        root = self._root
        assert root is not None, "_redraw has made it"
        with trials():
            root.update(self._drawings, {}, self._symbols, dirty)
        self._collect(root, found)

    def _redraw(self, ops: list[Op] | None) -> set[str]:
        """Read what has changed; return the nodes of the root to look at again."""
        if ops is not None and self._root is not None and all(isinstance(op, (MoveNode, RenameDocument)) for op in ops):
            return set()
        self._drawings = self._patched(ops) or read(self._graph)
        drawing = self._drawings[""]
        symbols = symbols_of(drawing)
        if self._root is None or symbols != self._symbols:
            # Other trial values change every size there is.
            self._symbols = symbols
            self._root = Scope("", self._drawings, "")
            return set(drawing.nodes)
        nested = {name for name, node in drawing.nodes.items() if node.type == "Subgraph"}
        return self._root.redraw(drawing) | nested

    def _patched(self, ops: list[Op] | None) -> dict[str, Drawing] | None:
        """Return the drawings with only property values exchanged, if nothing else has changed."""
        if ops is None or self._root is None:
            return None
        drawings = dict(self._drawings)
        for op in ops:
            match op:
                case MoveNode() | RenameDocument():
                    continue
                case SetProperty(node=name, property=prop) | ResetProperty(node=name, property=prop):
                    old = drawings.get(op.graph)
                    if prop in _STRUCTURAL_PROPERTIES or old is None or name not in old.nodes:
                        return None
                    nodes = {**old.nodes, name: self._graph.graphs[op.graph].nodes[name]}
                    drawings[op.graph] = msgspec.structs.replace(old, nodes=nodes)
                case _:
                    return None
        return drawings

    def _collect(self, root: Scope, found: list[Diagnostic]) -> None:
        facts = self._facts
        own: dict[str, list[Diagnostic]] = {}
        for diagnostic in found:
            own.setdefault(diagnostic.node or "", []).append(diagnostic)
        for scope in _scopes(root):
            for name in scope.touched:
                self._collect_node(scope, name)
            scope.touched.clear()
        facts.lint = own
        diagnostics = {path: tuple(items) for path, items in own.items()}
        for path, items in facts.findings.items():
            diagnostics[path] = (*diagnostics.get(path, ()), *items)
        facts.diagnostics = diagnostics

    def _collect_node(self, scope: Scope, name: str) -> None:
        facts = self._facts
        path = f"{scope.prefix}{name}"
        for port in facts.ports.pop(path, ()):
            facts.shapes.pop(port, None)
        for table in (facts.resolved, facts.parameters, facts.findings):
            table.pop(path, None)
        outcome = scope.outcomes.get(name)
        if outcome is None:
            facts.drop_inside(f"{path}.")
            return
        shapes = dict(tensor_specs(scope, name, outcome))
        facts.shapes.update(shapes)
        facts.ports[path] = tuple(shapes)
        if outcome.resolved:
            facts.resolved[path] = outcome.resolved
        if outcome.parameters:
            facts.parameters[path] = outcome.parameters
        if outcome.findings:
            facts.findings[path] = tuple(scope.diagnostics(name))


class _Facts:
    """Everything known, by path."""

    def __init__(self) -> None:
        self.shapes: dict[str, TensorSpec] = {}
        self.ports: dict[str, tuple[str, ...]] = {}
        self.resolved: dict[str, Mapping[str, Value]] = {}
        self.parameters: dict[str, int] = {}
        self.findings: dict[str, tuple[Diagnostic, ...]] = {}
        self.lint: dict[str, list[Diagnostic]] = {}
        self.diagnostics: dict[str, tuple[Diagnostic, ...]] = {}

    def copy(self) -> _Facts:
        other = _Facts()
        other.shapes = dict(self.shapes)
        other.resolved = dict(self.resolved)
        other.parameters = dict(self.parameters)
        other.diagnostics = dict(self.diagnostics)
        return other

    def drop_inside(self, prefix: str) -> None:
        """Forget what was inside a Subgraph node that is gone."""
        for table in (self.ports, self.resolved, self.parameters, self.findings):
            for path in [path for path in table if path.startswith(prefix)]:
                del table[path]  # type: ignore[attr-defined]  # every table is a dict with paths as keys
        for path in [path for path in self.shapes if path.startswith(prefix)]:
            del self.shapes[path]

    def since(self, old: _Facts) -> Derived:
        """Return what is different from `old`."""
        shapes: dict[str, TensorShape | None] = {
            path: TensorShape(spec.shape, spec.dtype) for path, spec in self.shapes.items() if old.shapes.get(path) != spec
        }
        shapes.update((path, None) for path in old.shapes.keys() - self.shapes.keys())
        resolved: dict[str, dict[str, object] | None] = {
            path: {name: to_json(value) for name, value in values.items()}
            for path, values in self.resolved.items()
            if old.resolved.get(path) != values
        }
        resolved.update((path, None) for path in old.resolved.keys() - self.resolved.keys())
        diagnostics = {path: found for path, found in self.diagnostics.items() if old.diagnostics.get(path) != found}
        diagnostics.update((path, ()) for path in old.diagnostics.keys() - self.diagnostics.keys())
        parameters: dict[str, int | None] = {
            path: count for path, count in self.parameters.items() if old.parameters.get(path) != count
        }
        parameters.update((path, None) for path in old.parameters.keys() - self.parameters.keys())
        return Derived(shapes, resolved, diagnostics, parameters)


def _scopes(scope: Scope) -> list[Scope]:
    return [scope, *(inner for child in scope.children.values() for inner in _scopes(child))]
