"""Merges nodes that compute the same value: common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import final

from pnne_nb.compiler.codegen.expressions import is_known
from pnne_nb.compiler.ir.program import Ref
from pnne_nb.compiler.ir.snapshot import NO_WIRES, GraphSnapshot
from pnne_nb.compiler.passes.equivalence import Promise
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite, borrowed, consumers, remove, rewire
from pnne_nb.compiler.passes.report import Change, Gain
from pnne_nb.graph.model.node import Node
from pnne_nb.graph.schema.structural import ABLATE, INSIDE


@final
class MergeEqualNodes(Pass):
    """Merges nodes of equal type, properties and inputs.

    Only torch's own functions and layers are merged, and layers only if they hold no tensors or share the same
    ones. Never merged is a node that uses random numbers, changes tensors in place or has its result changed in place,
    keeps statistics, or differs between training and evaluation; nor results of the model, which a caller may change.

    Outputs stay equal bit for bit. Gradients of the merged nodes are summed before instead of after them, and
    agree within rounding.
    """

    promise = Promise(gradients=1e-4)

    def rewrite(self, subject: PassSubject) -> Rewrite:
        done = Rewrite()
        merged = 0
        for id, snapshot in subject.snapshots.items():
            twins = self._twins(subject, id, snapshot, done)
            for name, first in twins.items():
                ports = [port.name for port in subject.graph.graphs[id].output_ports(name) or ()]
                rewire(subject, id, {f"{name}.{port}": f"{first}.{port}" for port in ports})
                for path, kept in zip(subject.paths(id, name), subject.paths(id, first), strict=True):
                    done.changes.append(Change("merged", (path,), f"{kept} gives the same"))
            remove(subject, id, twins)
            merged += len(twins) * len(subject.prefixes[id])
        total = sum(len(snapshot.nodes) * len(subject.prefixes[id]) for id, snapshot in subject.snapshots.items())
        done.gains.append(Gain("nodes", total, total - merged))
        return done

    @staticmethod
    def _twins(subject: PassSubject, id: str, snapshot: GraphSnapshot, done: Rewrite) -> dict[str, str]:
        """Return, for each node that can go, the node that gives the same."""
        twins: dict[str, str] = {}
        first: dict[Hashable, str] = {}
        lent = borrowed(subject, id)
        for name in snapshot.order:
            key = _identity(subject, id, snapshot.nodes[name], snapshot.wires.get(name, NO_WIRES), twins, snapshot)
            if key is None:
                continue
            known = first.setdefault(key, name)
            if known == name:
                continue
            why = _apart(subject, id, name, known, lent)
            if why:
                done.skipped.update(dict.fromkeys(subject.paths(id, name), why))
            else:
                twins[name] = known
        return twins


def _identity(
    subject: PassSubject,
    id: str,
    node: Node,
    wires: Mapping[str, Ref],
    twins: Mapping[str, str],
    snapshot: GraphSnapshot,
) -> Hashable | None:
    """Return what a node computes: equal for nodes that give the same; None for what is never merged."""
    spec = node.spec
    owner = ""
    if node.type == "Subgraph":
        owner = node.shares or node.name
    elif spec.kind == "module" and is_known(spec.target):
        modules = [subject.module(path) for path in subject.paths(id, node.name)]
        if node.shares is not None or any(True for each in modules for _ in (*each.parameters(), *each.buffers())):
            owner = node.shares or node.name
    elif spec.kind not in ("function", "method") or (spec.kind == "function" and not is_known(spec.target)):
        return None
    if spec.property_named("training") is not None or "empty" in spec.target:
        return None
    properties = {k: v for k, v in node.properties.items() if k != "shares"}
    if node.shares is not None:
        # Its module is built from its owner's properties.
        properties = {k: v for k, v in snapshot.nodes[node.shares].properties.items() if k != "shares"}
        properties |= {
            k: v for k, v in node.properties.items() if k in ("checkpoint", "device", INSIDE.name, ABLATE.name)
        }
    sources = tuple(sorted((port, _source(snapshot, ref, twins)) for port, ref in wires.items()))
    return (node.type, owner, repr(sorted(properties.items())), sources)


def _source(snapshot: GraphSnapshot, ref: Ref, twins: Mapping[str, str]) -> str:
    node = snapshot.nodes[ref.node]
    if node.type == "Constant":
        return f"= {node.properties.get('value')!r}"
    return f"{twins.get(ref.node, ref.node)}.{ref.port}"


def _apart(subject: PassSubject, id: str, name: str, known: str, lent: set[str]) -> str:
    """Say why two nodes that compute the same stay apart, or return an empty string."""
    if name in lent:
        return f"it computes the same as {known}, but others use its module"
    if not (subject.is_pure(id, name) and subject.is_pure(id, known)):
        return f"it looks like {known}, but draws random numbers or works in place"
    results = [{node for node, _ in consumers(subject, id, each)} for each in (name, known)]
    nodes = subject.snapshots[id].nodes
    if all(any(nodes[node].type == "Output" for node in found) for found in results):
        return f"it computes the same as {known}, but both are results that a caller may change"
    return ""
