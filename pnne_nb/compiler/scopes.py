"""Shapes of one graph at one place of use, kept up to date node by node.

A `Scope` remembers what every node gave. After an edit only the nodes that were touched are tried again, and of
what lies behind them only those whose inputs really changed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import final

import msgspec

from pnne_nb.compiler.abstract import Abstract, Meta
from pnne_nb.compiler.contexts import Inside, inside
from pnne_nb.compiler.costs import Cost, total
from pnne_nb.compiler.devices import missing_device
from pnne_nb.compiler.elements import named_type, with_element_type
from pnne_nb.compiler.mismatch import Finding
from pnne_nb.compiler.program import Ref
from pnne_nb.compiler.reading import NO_WIRES, Drawing
from pnne_nb.compiler.sizes import Size, number, symbol
from pnne_nb.compiler.trying import NOTHING, Outcome, attempt
from pnne_nb.errors import Diagnostic, Fix
from pnne_nb.graph.node import Node
from pnne_nb.graph.registry import registry
from pnne_nb.graph.types import DeviceType, OptionalType

Symbols = Mapping[str, tuple[int, ...]]
"""Trial values of each symbolic size."""

_DEVICES = (DeviceType(), OptionalType(DeviceType()))
"""Types of a property that says where a node is, or makes its tensor."""


@final
class Scope:
    """One graph at one place of use.

    Attributes:
        prefix: Path of the Subgraph node around it with a dot, or ``""``.
        around: The contexts that all of it runs in.
        drawing: What is drawn in it.
        outcomes: What each node gave.
        children: Scopes inside Subgraph nodes.
        touched: Nodes whose outcome was renewed, or that are gone, since this was last cleared.
        edited: Nodes that were drawn anew, or that hang on such nodes, since this was last cleared.
    """

    def __init__(self, prefix: str, drawings: Mapping[str, Drawing], id: str, around: Inside = ()) -> None:
        self.prefix = prefix
        self.around = around
        self.drawing = drawings[id]
        self.outcomes: dict[str, Outcome] = {}
        self.children: dict[str, Scope] = {}
        self.touched: set[str] = set()
        self.edited: set[str] = set(self.drawing.nodes)
        self._inputs: Mapping[str, Abstract | None] = {}
        self._symbols: Symbols = {}
        self._rank: dict[str, int] = {name: index for index, name in enumerate(self.drawing.order)}

    def redraw(self, drawing: Drawing) -> set[str]:
        """Take over a new drawing of the same graph; return the nodes that are new or wired differently."""
        old = self.drawing
        self.drawing = drawing
        if old.order is not drawing.order:
            self._rank = {name: index for index, name in enumerate(drawing.order)}
        for name in old.nodes.keys() - drawing.nodes.keys():
            self.outcomes.pop(name, None)
            self.children.pop(name, None)
            self.touched.add(name)
        dirty = {
            name
            for name, node in drawing.nodes.items()
            if node is not old.nodes.get(name) or old.wires.get(name, NO_WIRES) != drawing.wires.get(name, NO_WIRES)
        }
        if dirty:
            dirty |= {name for name, node in drawing.nodes.items() if node.shares in dirty}
        self.edited |= dirty
        for name in dirty:
            self.edited.update(drawing.followers.get(name, ()))
        return dirty

    def update(
        self,
        drawings: Mapping[str, Drawing],
        inputs: Mapping[str, Abstract | None],
        symbols: Symbols,
        dirty: Iterable[str],
    ) -> None:
        """Try the dirty nodes again, and everything behind them that changes.

        Args:
            drawings: Every definition by id.
            inputs: What arrives, by Input node; those of the root have shapes of their own.
            symbols: Trial values of symbolic sizes.
            dirty: Nodes that were edited.
        """
        self._inputs, self._symbols = inputs, symbols
        pending = [self._rank[name] for name in dirty if name in self._rank]
        heapq.heapify(pending)
        done = -1
        while pending:
            rank = heapq.heappop(pending)
            if rank == done:
                continue
            done = rank
            name = self.drawing.order[rank]
            old = self.outcomes.get(name)
            new = self._outcome(self.drawing.nodes[name], self._wires(name), drawings)
            if old is new:
                continue
            self.outcomes[name] = new
            self.touched.add(name)
            if old is None or old.outputs != new.outputs:
                for follower in self.drawing.followers.get(name, ()):
                    heapq.heappush(pending, self._rank[follower])

    def outcome_if(self, name: str, port: str, source: Ref, drawings: Mapping[str, Drawing]) -> Outcome:
        """Return what a node would give if `source` fed a port of it; nothing is remembered of it."""
        node = self.drawing.nodes[name]
        wires = {**self._wires(name), port: self.value(source)}
        if node.is_box or node.definition is None or node.definition not in drawings:
            return self._outcome(node, wires, drawings)
        alone = Scope(f"{self.prefix}{name}.", drawings, node.definition, (*self.around, *inside(node)))
        alone.update(drawings, wires, self._symbols, alone.drawing.nodes)
        found = [finding for inner in alone.outcomes.values() for finding in inner.findings]
        return Outcome(alone.results(), findings=tuple(found))

    def results(self) -> dict[str, Abstract]:
        """Return what arrives at the Output nodes, as far as it is known."""
        found: dict[str, Abstract] = {}
        for name in self.drawing.outputs:
            ref = self.drawing.wires.get(name, NO_WIRES).get("input")
            value = self.value(ref) if ref is not None else None
            if value is not None:
                found[name] = value
        return found

    def value(self, ref: Ref) -> Abstract | None:
        """Return what is known about the value at an output port."""
        outcome = self.outcomes.get(ref.node)
        return None if outcome is None else outcome.outputs.get(ref.port)

    def _wires(self, name: str) -> dict[str, Abstract | None]:
        return {port: self.value(ref) for port, ref in self.drawing.wires.get(name, NO_WIRES).items()}

    def _outcome(self, node: Node, wires: Mapping[str, Abstract | None], drawings: Mapping[str, Drawing]) -> Outcome:
        spec = registry.get(node.type)
        if spec is None or spec.kind == "training":
            return NOTHING
        if spec.kind != "structural":
            properties = with_element_type(node)
            if node.shares is not None and node.shares in self.drawing.nodes:
                owner = self.outcomes.get(node.shares, NOTHING)
                properties = {**with_element_type(self.drawing.nodes[node.shares]), **owner.resolved}
            outcome = attempt(spec, properties, wires, (*self.around, *inside(node)))
            if found := _placed(node):
                outcome = Outcome(outcome.outputs, outcome.resolved, (*outcome.findings, *found), outcome.cost)
            if node.shares is not None:
                # Its parameters are the owner's, and are counted there.
                cost = replace(outcome.cost, parameters=0, memory=0)
                return Outcome(outcome.outputs, None, outcome.findings, cost)
            return outcome
        match node.type:
            case "Input":
                return self._input(node)
            case "Constant":
                return Outcome({"output": Abstract((node.properties.get("value"),))})
            case "Parameter" | "Buffer":
                return _weight(node)
            case "Subgraph" | "Module":
                return self._nested(node, wires, drawings)
        return NOTHING

    def _input(self, node: Node) -> Outcome:
        if self.prefix:
            value = self._inputs.get(node.name)
            return Outcome({"output": value}) if value is not None else NOTHING
        shape, dtype = node.properties.get("shape"), named_type(node)
        if not isinstance(shape, tuple) or dtype is None:
            return NOTHING
        sizes: list[Size] = []
        rows: list[tuple[int, ...]] = []
        count = max((len(values) for values in self._symbols.values()), default=1)
        for size in shape:
            if isinstance(size, str):
                sizes.append(symbol(size))
                rows.append(self._symbols[size])
            elif isinstance(size, int):
                sizes.append(number(size))
                rows.append((size,) * count)
        trials = tuple(Meta(tuple(row[trial] for row in rows), dtype) for trial in range(count))
        return Outcome({"output": Abstract(trials, tuple(sizes))})

    def _nested(self, node: Node, wires: Mapping[str, Abstract | None], drawings: Mapping[str, Drawing]) -> Outcome:
        found = _placed(node)
        if node.definition is None or node.definition not in drawings:
            return Outcome({}, findings=found) if found else NOTHING
        drawing = drawings[node.definition]
        child, around = self.children.get(node.name), (*self.around, *inside(node))
        if child is None or child.drawing.id != drawing.id or child.around != around:
            child = self.children[node.name] = Scope(f"{self.prefix}{node.name}.", drawings, drawing.id, around)
            dirty = set(drawing.nodes)
        else:
            if child.drawing is not drawing:
                self.edited.add(node.name)
            dirty = child.redraw(drawing) if child.drawing is not drawing else set()
            dirty |= {name for name in drawing.inputs if child._inputs.get(name) != wires.get(name)}
            dirty |= {name for name, inner in drawing.nodes.items() if inner.definition is not None}
        child.update(drawings, wires, self._symbols, dirty)
        cost = total(inner.cost for inner in child.outcomes.values())
        if node.shares is not None:
            cost = replace(cost, parameters=0, memory=0)
        outcome = Outcome(child.results(), findings=found, cost=cost)
        old = self.outcomes.get(node.name)
        unchanged = old is not None and (old.outputs, old.findings, old.cost) == (outcome.outputs, found, cost)
        return old if unchanged and old is not None else outcome

    def diagnostics(self, name: str) -> list[Diagnostic]:
        """Return what was found at a node."""
        outcome = self.outcomes.get(name)
        return [] if outcome is None else [self.placed(name, finding) for finding in outcome.findings]

    def placed(self, name: str, finding: Finding) -> Diagnostic:
        """Return a finding as the diagnostic of a node, with a repair at the Input that an element type comes from."""
        diagnostic = finding.at(f"{self.prefix}{name}")
        source = self.drawing.wires.get(name, NO_WIRES).get(finding.port or "")
        if finding.dtype is None or self.prefix or source is None or self.drawing.nodes[source.node].type != "Input":
            return diagnostic
        fix = Fix(source.node, "dtype", finding.dtype, f"Set dtype of {source.node} to {finding.dtype}")
        return msgspec.structs.replace(diagnostic, fix=fix)


def _placed(node: Node) -> tuple[Finding, ...]:
    """Return what there is to say of where a node is placed, or makes its tensor."""
    device = node.properties.get("device")
    if not isinstance(device, str) or not any(p.name == "device" and p.type in _DEVICES for p in node.spec.properties):
        return ()
    found = missing_device(device)
    return () if found is None else (found,)


def _weight(node: Node) -> Outcome:
    shape, dtype = node.properties.get("shape"), named_type(node)
    if not isinstance(shape, tuple) or dtype is None:
        return NOTHING
    sizes = tuple(size for size in shape if isinstance(size, int))
    count = math.prod(sizes)
    cost = Cost(count if node.type == "Parameter" else 0, count * dtype.itemsize)
    outputs = {"output": Abstract((Meta(sizes, dtype),), tuple(map(number, sizes)))}
    return Outcome(outputs, cost=cost)
