"""Keeps shapes, costs and diagnostics of a document up to date while it is edited, and reports them as deltas.

An `IncrementalAnalysis` follows one document. After an edit it analyses again the edited nodes, and downstream nodes whose inputs
have changed; `refresh` returns the differences since the last call.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Generic, Self, TypeVar, final

import msgspec

from pnne_nb.compiler.ir.program import Ref
from pnne_nb.compiler.ir.snapshot import GraphSnapshot, read, size_of
from pnne_nb.compiler.pipeline.snapshot_patch import patched
from pnne_nb.compiler.shapes.cost import FREE, share
from pnne_nb.compiler.shapes.infer import FreeScope, TensorSpec, batch_of, symbols_of, tensor_specs
from pnne_nb.compiler.shapes.scope import Scope, Symbols
from pnne_nb.compiler.shapes.trial import Outcome, trials
from pnne_nb.errors import CompileError, Diagnostic
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.lint import MAX_NODES
from pnne_nb.graph.model.node import Transaction
from pnne_nb.graph.model.ops import LookOp, Op, RemoveNode, RenameDocument, SetSize
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.values import Value, to_json
from pnne_nb.process.fork import fork_safe
from pnne_nb.protocol.messages import Consequence, Derived, NodeCost, TensorShape

Entry = TypeVar("Entry")


@final
class IncrementalAnalysis:
    """Shapes, inferred sizes, diagnostics and costs of one document, updated after each edit.

    Methods may be called from any thread. Close it, or use it as a context manager, to stop following the
    document.
    """

    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph
        self._lock = fork_safe(threading.RLock())
        self._pending: deque[Op | None] = deque([None])  # None: read everything again
        self._snapshots: dict[str, GraphSnapshot] = {}
        self._symbols: Symbols = {}
        self._batch: str | None = None
        self._example: dict[str, int] = {}
        self._root: Scope | None = None
        self._free = FreeScope()
        self._reread = True
        self._unfinished = False  # whether the last update was given up
        self._facts = _Facts()
        self._ports: dict[str, tuple[str, ...]] = {}
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
        """Update everything, and return the changes since the last call (at first: everything).

        Raises:
            OutOfDateError: If it is idle work and was given up; the next call goes on where this one ended.
        """
        with self._lock:
            self._update()
            facts = self._facts
            example = {name: 1 if name == self._batch else values[0] for name, values in self._symbols.items()}
            known, self._example = self._example, example
            return Derived(
                shapes={
                    path: None if spec is None else TensorShape(spec.shape, spec.dtype, spec.named)
                    for path, spec in facts.shapes.changes().items()
                },
                resolved={
                    path: None if values is None else {name: to_json(value) for name, value in values.items()}
                    for path, values in facts.resolved.changes().items()
                },
                diagnostics={path: found or () for path, found in facts.diagnostics.changes().items()},
                costs=facts.costs.changes(),
                example=None if example == known else example,
            )

    def preview(self, source: str, target: str) -> Consequence:
        """Return the effect of an edge between two ports of one graph, without adding it."""
        with self._lock:
            self._update()
            path, _, port = target.rpartition(".")
            prefix, _, name = path.rpartition(".")
            scope = self._scope(prefix)
            ref = Ref(*source[len(f"{prefix}.") if prefix else 0 :].rpartition(".")[::2])
            value = scope and scope.value(ref)
            if scope is None or value is None or name not in scope.snapshot.nodes:
                return Consequence()
            if scope.snapshot.nodes[name].type == "Output":
                outcome = Outcome({"input": value})
            else:
                outcome = scope.outcome_if(name, port, ref, self._snapshots)
            specs = [spec for _, spec in tensor_specs(scope, name, outcome)]
            return Consequence(
                TensorShape(specs[0].shape, specs[0].dtype) if specs else None,
                tuple(scope.placed(name, finding) for finding in outcome.findings),
            )

    def _scope(self, path: str) -> Scope | None:
        scope = self._root
        for name in path.split(".") if path else ():
            scope = scope and scope.children.get(name)
        return scope

    @property
    def shapes(self) -> dict[str, TensorSpec]:
        """Shapes of all output ports, by path."""
        with self._lock:
            self._update()
            return dict(self._facts.shapes.values)

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """All diagnostics, of lint and of shape inference."""
        with self._lock:
            self._update()
            return [diagnostic for found in self._facts.diagnostics.values.values() for diagnostic in found]

    @property
    def costs(self) -> dict[str, NodeCost]:
        """Costs of nodes by path, for one example where the Inputs leave the batch size open."""
        with self._lock:
            self._update()
            return dict(self._facts.costs.values)

    def _note(self, done: Transaction) -> None:
        # Not under the lock that a long `refresh` holds: whoever edits meanwhile must not wait for it.
        self._pending.extend(done.ops)

    def _reset(self, _: object) -> None:
        with self._lock:
            self._pending.append(None)
            self._root, self._free = None, FreeScope()

    def _update(self) -> None:
        # The document's lock is taken before its version is read, and given back before anything is tried.
        with self._graph.reading():
            if self._graph.version == self._version and not (self._pending or self._unfinished):
                return
            noted = [self._pending.popleft() for _ in range(len(self._pending))]
            ops = None if None in noted else [op for op in noted if op is not None]
            self._version = self._graph.version
            try:
                dirty = self._redraw(ops)
            except CompileError as error:
                self._give_up(error.diagnostics)
                return
            root = self._root
            assert root is not None, "_redraw has made it"
            if size_of(self._snapshots) > MAX_NODES:
                self._give_up(self._graph.diagnostics())
                return
        self._unfinished = True
        with trials():
            root.update(self._snapshots, {}, self._symbols, dirty)
            self._free.update(self._snapshots)
        self._unfinished = False
        scopes = root.whole()
        if self._reread:
            live = {f"{scope.prefix}{name}" for scope in scopes for name in scope.snapshot.nodes}
            for path in [path for path in self._ports if path not in live]:
                self._drop(path)
            self._reread = False
        lint = self._graph.diagnostics_at([f"{scope.prefix}{name}" for scope in scopes for name in scope.edited])
        for scope in scopes:
            free = self._free.scopes.get(scope.prefix)
            for name in scope.touched | scope.edited | (free.touched if free is not None else set()):
                self._collect(scope, name, lint)
            scope.touched.clear()
            if free is not None:
                free.touched.clear()
            scope.edited.clear()
        self._facts.lint.set("", tuple(lint[""]) or None)
        self._facts.combine("")

    def _give_up(self, reasons: Iterable[Diagnostic]) -> None:
        """Say why the document cannot be looked at; the next edit is looked at afresh."""
        self._root = None
        self._ports.clear()
        self._facts.clear()
        self._facts.lint.set("", tuple(reasons))
        self._facts.combine("")

    def _redraw(self, ops: list[Op] | None) -> set[str]:
        """Read what has changed; return the nodes of the root to look at again."""
        if ops and self._root is not None and all(isinstance(op, (LookOp, RenameDocument, SetSize)) for op in ops):
            return set()
        if self._unfinished and ops == [] and self._root is not None:
            return set()  # it knows what is left
        # No ops at another version: this thread is ahead of the observers.
        known = patched(self._snapshots, self._graph, ops) if ops and self._root is not None else None
        self._reread |= known is None or any(isinstance(op, RemoveNode) for op in ops or ())
        self._snapshots = read(self._graph) if known is None else known
        snapshot = self._snapshots[""]
        symbols, batch = symbols_of(snapshot), batch_of(snapshot)
        if self._root is None or symbols != self._symbols or batch != self._batch:
            # Other trial values change every size there is.
            self._symbols, self._batch = symbols, batch
            self._root = Scope("", self._snapshots, "")
            return set(snapshot.nodes)
        nested = {name for name, node in snapshot.nodes.items() if node.definition is not None}
        return self._root.redraw(snapshot) | nested

    def _collect(self, scope: Scope, name: str, lint: Mapping[str, list[Diagnostic]]) -> None:
        facts = self._facts
        if name not in scope.snapshot.nodes:
            return
        path = f"{scope.prefix}{name}"
        outcome = scope.outcomes.get(name)
        specs = dict(tensor_specs(scope, name, outcome, self._free)) if outcome is not None else {}
        for port in self._ports.pop(path, ()):
            if port not in specs:
                facts.shapes.set(port, None)
        for port, spec in specs.items():
            facts.shapes.set(port, spec)
        self._ports[path] = tuple(specs)
        facts.resolved.set(path, outcome.resolved if outcome is not None and outcome.resolved else None)
        facts.costs.set(path, self._cost(outcome) if outcome is not None else None)
        facts.findings.set(path, tuple(map(self._told, scope.diagnostics(name))) or None)
        if path in lint:
            facts.lint.set(path, tuple(lint[path]) or None)
        facts.combine(path)

    def _told(self, found: Diagnostic) -> Diagnostic:
        """Return a finding as it is where data are drawn: a size that follows from them is open, and no problem."""
        drawn = any(node.type == "Dataset" for node in self._snapshots[""].nodes.values())
        if not drawn or (found.code, found.severity) != ("auto-unresolved", "warning"):
            return found
        message = (
            f"{found.message.partition(' ')[0]} is 'auto': it follows from the data, which are opened for the training."
        )
        return msgspec.structs.replace(found, message=message, hint=None, severity="info")

    def _cost(self, outcome: Outcome) -> NodeCost | None:
        cost, batch = outcome.cost, self._symbols.get(self._batch or "")
        if cost == FREE:
            return None
        return NodeCost(cost.parameters, share(cost.mult_adds, batch), cost.memory, share(cost.activation, batch))

    def _drop(self, path: str) -> None:
        """Forget a node that is gone."""
        for port in self._ports.pop(path):
            self._facts.shapes.set(port, None)
        self._facts.drop(path)


class _Table(Generic[Entry]):
    """Entries by path, and what they were when changes were last asked for."""

    def __init__(self) -> None:
        self.values: dict[str, Entry] = {}
        self._before: dict[str, Entry | None] = {}

    def set(self, path: str, entry: Entry | None) -> None:
        """Put an entry in its place; None takes it away."""
        self._before.setdefault(path, self.values.get(path))
        if entry is None:
            self.values.pop(path, None)
        else:
            self.values[path] = entry

    def clear(self) -> None:
        """Take every entry away."""
        for path in list(self.values):
            self.set(path, None)

    def changes(self) -> dict[str, Entry | None]:
        """Return the entries that differ from the last time, None for those that are gone."""
        changed = {path: self.values.get(path) for path, old in self._before.items() if self.values.get(path) != old}
        self._before.clear()
        return changed


class _Facts:
    """Everything known, by path."""

    def __init__(self) -> None:
        self.shapes: _Table[TensorSpec] = _Table()
        self.resolved: _Table[Mapping[str, Value]] = _Table()
        self.costs: _Table[NodeCost] = _Table()
        self.findings: _Table[tuple[Diagnostic, ...]] = _Table()
        self.lint: _Table[tuple[Diagnostic, ...]] = _Table()
        self.diagnostics: _Table[tuple[Diagnostic, ...]] = _Table()

    def combine(self, path: str) -> None:
        """Put together what was found at a node with and without torch."""
        found = (*self.lint.values.get(path, ()), *self.findings.values.get(path, ()))
        self.diagnostics.set(path, found or None)

    def drop(self, path: str) -> None:
        """Forget a node; its shapes have the paths of ports."""
        for table in (self.resolved, self.costs, self.findings, self.lint, self.diagnostics):
            table.set(path, None)

    def clear(self) -> None:
        """Forget everything."""
        for table in (self.shapes, self.resolved, self.costs, self.findings, self.lint, self.diagnostics):
            table.clear()
