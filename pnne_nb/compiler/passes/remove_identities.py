"""Removes nodes that give what they are given in evaluation mode: dropout and identities."""

from __future__ import annotations

from typing import final

from pnne_nb.compiler.ir.snapshot import NO_WIRES
from pnne_nb.compiler.passes.equivalence import Promise
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite, borrowed, consumers, remove, rewire
from pnne_nb.compiler.passes.report import Change, Gain
from pnne_nb.graph.model.node import split_port

IDENTITIES = frozenset(
    {"Identity", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"}
)
"""Node types that do nothing in evaluation mode."""


@final
class RemoveIdentities(Pass):
    """Removes dropout and identity nodes, for inference: in evaluation mode, they give what they are given.

    A node that other nodes share stays, and so does one between an Input and an Output alone.
    """

    promise = Promise(modes=("eval",), outputs=0.0, gradients=None)

    def rewrite(self, subject: PassSubject) -> Rewrite:
        done = Rewrite()
        before = sum(len(graph.nodes) for graph in subject.graph.graphs.values())
        for id, snapshot in subject.snapshots.items():
            lent = borrowed(subject, id)
            removed: list[str] = []
            for name in snapshot.order:
                node = snapshot.nodes[name]
                if node.type not in IDENTITIES or "input" not in snapshot.wires.get(name, NO_WIRES):
                    continue
                if name in lent:
                    done.skipped.update(dict.fromkeys(subject.paths(id, name), "other nodes share it"))
                    continue
                edges = subject.graph.graphs[id].edges
                source = next(edge.source for edge in edges if edge.target == f"{name}.input")
                ends = {subject.graph.graphs[id].nodes[user].type for user, _ in consumers(subject, id, name)}
                if subject.graph.graphs[id].nodes[split_port(source)[0]].type == "Input" and "Output" in ends:
                    done.skipped.update(dict.fromkeys(subject.paths(id, name), "an Input would be an Output itself"))
                    continue
                rewire(subject, id, {f"{name}.output": source})
                removed.append(name)
                done.changes.append(
                    Change("removed", subject.paths(id, name), f"{node.type} does nothing in inference")
                )
            remove(subject, id, removed)
        after = sum(len(graph.nodes) for graph in subject.graph.graphs.values())
        done.gains.append(Gain("nodes", before, after))
        return done
