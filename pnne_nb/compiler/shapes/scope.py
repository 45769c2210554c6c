"""Holds the shapes of one graph at one place of use, updated node by node.

A `Scope` keeps the outcome of every node. After an edit it tries the edited nodes again, and downstream nodes only if
their inputs have changed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import final

import msgspec
import torch

from pnne_nb.compiler.ir.bind import ELEMENT, with_element_type
from pnne_nb.compiler.ir.program import Ref
from pnne_nb.compiler.ir.snapshot import NO_WIRES, GraphSnapshot, passed_on
from pnne_nb.compiler.shapes.cost import Cost, total
from pnne_nb.compiler.shapes.mismatch import NodeFinding
from pnne_nb.compiler.shapes.symbolic import Abstract, Meta, number, symbol
from pnne_nb.compiler.shapes.trial import NOTHING, Outcome, attempt
from pnne_nb.errors import Diagnostic, Fix, Severity
from pnne_nb.graph.model.node import Node, ablated, inside
from pnne_nb.graph.schema.property_types import DeviceType, OptionalType
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.schema.values import DTYPES
from pnne_nb.process.idle import OutOfDateError, breathe

_EVERYWHERE = frozenset({"cpu", "meta"})


def available_devices() -> list[str]:
    """Return the names of the devices of this machine, the CPU first."""
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if accelerator is None:
        return ["cpu"]
    return ["cpu", *(f"{accelerator.type}:{index}" for index in range(torch.accelerator.device_count()))]


def missing_device(name: str, severity: Severity = "warning") -> NodeFinding | None:
    """Return the finding for a node on a device that this machine lacks, or None.

    It is a warning in a document, which may be meant for another machine, and an error when that is compiled here.
    """
    device = torch.device(name)
    known = available_devices()
    if device.type in _EVERYWHERE or f"{device.type}:{device.index or 0}" in known:
        return None
    return NodeFinding(
        "device-missing",
        f"It is placed on {name}, which this machine does not have; there is {', '.join(known)}.",
        hint="Choose one of these, or None for where its input is; or compile it on a machine that has it.",
        severity=severity,
        property="device",
        value=known[1] if len(known) > 1 else None,
    )


Symbols = Mapping[str, tuple[int, ...]]
"""Trial values of each symbolic size."""

_DEVICES = (DeviceType(), OptionalType(DeviceType()))
"""Types of a property with the device of a node or of its tensor."""


@final
class Scope:
    """Shapes of one graph at one place of use.

    Attributes:
        prefix: Path of the Subgraph node around it with a dot, or ``""``.
        around: The contexts that all of it runs in.
        snapshot: The graph.
        outcomes: What each node gave.
        children: Scopes inside Subgraph nodes.
        touched: Nodes whose outcome was renewed, or that are gone, since this was last cleared.
        edited: Nodes that were edited, or that depend on such nodes, since this was last cleared.
    """

    def __init__(
        self, prefix: str, snapshots: Mapping[str, GraphSnapshot], id: str, around: tuple[str, ...] = ()
    ) -> None:
        self.prefix = prefix
        self.around = around
        self.snapshot = snapshots[id]
        self.outcomes: dict[str, Outcome] = {}
        self.children: dict[str, Scope] = {}
        self.touched: set[str] = set()
        self.edited: set[str] = set(self.snapshot.nodes)
        self._inputs: Mapping[str, Abstract | None] = {}
        self._symbols: Symbols = {}
        self._unfinished: set[str] = set()  # nodes that are still to be tried: the last update was given up
        self._rank: dict[str, int] = {name: index for index, name in enumerate(self.snapshot.order)}

    def redraw(self, snapshot: GraphSnapshot) -> set[str]:
        """Update the snapshot, and return the nodes that are new or have other wires."""
        old = self.snapshot
        self.snapshot = snapshot
        if old.order is not snapshot.order:
            self._rank = {name: index for index, name in enumerate(snapshot.order)}
        gone = old.nodes.keys() - snapshot.nodes.keys()
        for name in gone:
            self.outcomes.pop(name, None)
            self.children.pop(name, None)
            self.touched.add(name)
        known = old.nodes
        dirty = {name for name, node in snapshot.nodes.items() if known.get(name) is not node}
        if old.wires is not snapshot.wires:
            wires = old.wires
            # Most are the very same object: comparing what they hold would take longer than everything else.
            renewed = [(name, own) for name, own in snapshot.wires.items() if wires.get(name) is not own]
            dirty |= {name for name, own in renewed if (wires.get(name) or NO_WIRES) != own}
            dirty |= {name for name in wires.keys() - snapshot.wires.keys() if wires[name] and name in snapshot.nodes}
        if dirty or gone:
            dirty |= {name for name, node in snapshot.nodes.items() if node.shares in dirty or node.of}
        self.edited |= dirty
        for name in dirty:
            self.edited.update(snapshot.followers.get(name, ()))
        return dirty

    def update(
        self,
        snapshots: Mapping[str, GraphSnapshot],
        inputs: Mapping[str, Abstract | None],
        symbols: Symbols,
        dirty: Iterable[str],
    ) -> None:
        """Try edited nodes again, and downstream nodes whose inputs have changed.

        Args:
            snapshots: Every definition by id.
            inputs: What arrives, by Input node; those of the root have shapes of their own.
            symbols: Trial values of symbolic sizes.
            dirty: Nodes that were edited.

        Raises:
            OutOfDateError: If it is idle work and was given up; the next call goes on where this one ended.
        """
        self._inputs, self._symbols = inputs, symbols
        pending = [self._rank[name] for name in {*dirty, *self._unfinished} if name in self._rank]
        self._unfinished = set()
        heapq.heapify(pending)
        try:
            self._try_all(pending, snapshots)
        except OutOfDateError:
            self._unfinished = {self.snapshot.order[rank] for rank in pending}
            raise

    def _try_all(self, pending: list[int], snapshots: Mapping[str, GraphSnapshot]) -> None:
        """Try the nodes of those ranks, and those whose inputs change; what is left is still in `pending`."""
        while pending:
            rank = pending[0]
            name = self.snapshot.order[rank]
            breathe()
            old = self.outcomes.get(name)
            new = self._ablated(name, self._outcome(self.snapshot.nodes[name], self._wires(name), snapshots), snapshots)
            while pending and pending[0] == rank:
                heapq.heappop(pending)
            if old is new:
                continue
            self.outcomes[name] = new
            self.touched.add(name)
            if old is None or old.outputs != new.outputs:
                for follower in self.snapshot.followers.get(name, ()):
                    heapq.heappush(pending, self._rank[follower])

    def whole(self) -> list[Scope]:
        """Return this scope and all inside it."""
        return [self, *(inner for child in self.children.values() for inner in child.whole())]

    def outcome_if(self, name: str, port: str, source: Ref, snapshots: Mapping[str, GraphSnapshot]) -> Outcome:
        """Return the outcome of a node if `source` were connected to a port; nothing is stored."""
        node = self.snapshot.nodes[name]
        wires = {**self._wires(name), port: self.value(source)}
        if node.is_box or node.definition is None or node.definition not in snapshots:
            return self._outcome(node, wires, snapshots)
        alone = Scope(f"{self.prefix}{name}.", snapshots, node.definition, (*self.around, *inside(node)))
        alone.update(snapshots, wires, self._symbols, alone.snapshot.nodes)
        found = [finding for inner in alone.outcomes.values() for finding in inner.findings]
        return Outcome(alone.results(), findings=tuple(found))

    def results(self) -> dict[str, Abstract]:
        """Return the known values at the Output nodes."""
        found: dict[str, Abstract] = {}
        for name in self.snapshot.outputs:
            ref = self.snapshot.wires.get(name, NO_WIRES).get("input")
            value = self.value(ref) if ref is not None else None
            if value is not None:
                found[name] = value
        return found

    def value(self, ref: Ref) -> Abstract | None:
        """Return what is known about the value at an output port."""
        outcome = self.outcomes.get(ref.node)
        return None if outcome is None else outcome.outputs.get(ref.port)

    def _wires(self, name: str) -> dict[str, Abstract | None]:
        return {port: self.value(ref) for port, ref in self.snapshot.wires.get(name, NO_WIRES).items()}

    def _outcome(
        self, node: Node, wires: Mapping[str, Abstract | None], snapshots: Mapping[str, GraphSnapshot]
    ) -> Outcome:
        spec = registry.get(node.type)
        if spec is None or spec.kind == "training":
            return NOTHING
        if spec.kind != "structural":
            properties = with_element_type(node)
            if node.shares is not None and node.shares in self.snapshot.nodes:
                owner = self.outcomes.get(node.shares, NOTHING)
                properties = {**with_element_type(self.snapshot.nodes[node.shares]), **owner.resolved}
            outcome = attempt(spec, properties, wires, (*self.around, *inside(node)))
            if found := _placed(node):
                outcome = msgspec.structs.replace(outcome, findings=(*outcome.findings, *found))
            if node.shares is not None:
                # Its parameters are the owner's, and are counted there.
                cost = replace(outcome.cost, parameters=0, memory=0)
                return msgspec.structs.replace(outcome, resolved={}, cost=cost)
            return outcome
        match node.type:
            case "Input":
                return self._input(node)
            case "Constant":
                return Outcome({"output": Abstract((node.properties.get("value"),))})
            case "Parameter" | "Buffer":
                return _weight(node)
            case "Subgraph" | "Module":
                return self._nested(node, wires, snapshots)
        return NOTHING

    def _ablated(self, name: str, outcome: Outcome, snapshots: Mapping[str, GraphSnapshot]) -> Outcome:
        """Return what a node gives that does not run: its first input, from its first output."""
        node = self.snapshot.nodes[name]
        if not ablated(node):
            return outcome
        faults: list[tuple[str, str]] = []
        first = passed_on(self.snapshot, snapshots, name)
        if first is None:
            faults.append(("nothing is connected to it that could be passed on", "Connect its input"))
        used = sorted(
            {
                ref.port
                for follower in self.snapshot.followers.get(name, ())
                for ref in self.snapshot.wires[follower].values()
                if ref.node == name
            }
        )
        if len(used) > 1:
            why = f"its outputs {' and '.join(used)} are in use, and there is only one input to pass on"
            faults.append((why, "Use one output"))
        value = None if first is None or faults else self.value(first)
        outputs = dict.fromkeys(used[:1] or tuple(outcome.outputs)[:1], value) if value is not None else {}
        findings = [
            NodeFinding(
                code="ablate-impossible",
                message=f"It cannot be left out: {why}.",
                hint=f"{instead}, or reset ablate.",
                property="ablate",
            )
            for why, instead in faults
        ]
        return msgspec.structs.replace(outcome, outputs=outputs, findings=(*outcome.findings, *findings))

    def _input(self, node: Node) -> Outcome:
        if self.prefix:
            value = self._inputs.get(node.name)
            return Outcome({"output": value}) if value is not None else NOTHING
        shape, dtype = node.properties.get("shape"), _element_type(node)
        if not isinstance(shape, tuple) or dtype is None:
            return NOTHING
        count = max(map(len, self._symbols.values()), default=1)
        known = [size for size in shape if isinstance(size, (str, int))]
        rows = [self._symbols[size] if isinstance(size, str) else (size,) * count for size in known]
        trials = tuple([Meta(tuple([row[trial] for row in rows]), dtype) for trial in range(count)])
        sizes = tuple([symbol(size) if isinstance(size, str) else number(size) for size in known])
        return Outcome({"output": Abstract(trials, sizes)})

    def _nested(
        self, node: Node, wires: Mapping[str, Abstract | None], snapshots: Mapping[str, GraphSnapshot]
    ) -> Outcome:
        found = _placed(node)
        if node.definition is None or node.definition not in snapshots:
            return Outcome({}, findings=found) if found else NOTHING
        snapshot = snapshots[node.definition]
        child, around = self.children.get(node.name), (*self.around, *inside(node))
        if child is None or child.snapshot.id != snapshot.id or child.around != around:
            child = self.children[node.name] = Scope(f"{self.prefix}{node.name}.", snapshots, snapshot.id, around)
            dirty = set(snapshot.nodes)
        else:
            if child.snapshot is not snapshot:
                self.edited.add(node.name)
            dirty = child.redraw(snapshot) if child.snapshot is not snapshot else set()
            dirty |= {name for name in snapshot.inputs if child._inputs.get(name) != wires.get(name)}
            dirty |= {name for name, inner in snapshot.nodes.items() if inner.definition is not None}
        child.update(snapshots, wires, self._symbols, dirty)
        cost = total(inner.cost for inner in child.outcomes.values())
        if node.shares is not None:
            cost = replace(cost, parameters=0, memory=0)
        outcome = Outcome(child.results(), findings=found, cost=cost)
        old = self.outcomes.get(node.name)
        unchanged = old is not None and (old.outputs, old.findings, old.cost) == (outcome.outputs, found, cost)
        return old if unchanged and old is not None else outcome

    def diagnostics(self, name: str) -> list[Diagnostic]:
        """Return the diagnostics of a node."""
        outcome = self.outcomes.get(name)
        return [] if outcome is None else [self.placed(name, finding) for finding in outcome.findings]

    def placed(self, name: str, finding: NodeFinding) -> Diagnostic:
        """Return a finding as the diagnostic of a node; a repair may be at the Input of the element type."""
        diagnostic = finding.at(f"{self.prefix}{name}")
        source = self.snapshot.wires.get(name, NO_WIRES).get(finding.port or "")
        if finding.dtype is None or self.prefix or source is None or self.snapshot.nodes[source.node].type != "Input":
            return diagnostic
        fix = Fix(source.node, "dtype", finding.dtype, f"Set dtype of {source.node} to {finding.dtype}")
        return msgspec.structs.replace(diagnostic, fix=fix)


def _placed(node: Node) -> tuple[NodeFinding, ...]:
    """Return what there is to say of where a node is placed, or makes its tensor."""
    device = node.properties.get("device")
    if not isinstance(device, str) or not any(p.name == "device" and p.type in _DEVICES for p in node.spec.properties):
        return ()
    found = missing_device(device)
    return () if found is None else (found,)


def _element_type(node: Node) -> torch.dtype | None:
    """Return the element type of an input or weight, or None if its property names none, which lint reports."""
    name = node.properties.get(ELEMENT, "float32")
    return getattr(torch, name) if isinstance(name, str) and name in DTYPES else None


def _weight(node: Node) -> Outcome:
    shape, dtype = node.properties.get("shape"), _element_type(node)
    if not isinstance(shape, tuple) or dtype is None:
        return NOTHING
    sizes = tuple(size for size in shape if isinstance(size, int))
    count = math.prod(sizes) if not node.of else 0  # it is counted where it belongs
    cost = Cost(count if node.type == "Parameter" else 0, count * dtype.itemsize)
    outputs = {"output": Abstract((Meta(sizes, dtype),), tuple(map(number, sizes)))}
    return Outcome(outputs, cost=cost)
