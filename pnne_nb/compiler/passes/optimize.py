"""``pn.optimize_for_inference``: the passes that make a trained model smaller or faster; the one that removes identities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import msgspec

from pnne_nb.compiler.ir.snapshot import NO_WIRES
from pnne_nb.compiler.passes.batchnorm_fusion import PAIRS, FuseBatchNorm
from pnne_nb.compiler.passes.common_subexpressions import MergeEqualNodes
from pnne_nb.compiler.passes.constant_folding import FoldConstants
from pnne_nb.compiler.passes.dead_nodes import RemoveDeadNodes
from pnne_nb.compiler.passes.equivalence import Promise
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite, borrowed, consumers, remove, rewire
from pnne_nb.compiler.passes.pass_manager import Transformed, transform, transformed
from pnne_nb.compiler.passes.report import Change, Gain
from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OWN
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


SLOWER = 1.03
"""A fusion whose model takes this many times as long is left out; less is within the noise of a measurement."""


def optimize_for_inference(
    graph: NodeGraph, args: Any = None, kwargs: Mapping[str, Any] | None = None, *, reuse: Reuse = OWN
) -> Transformed:
    """Make a model for inference: nodes that do nothing are removed, constants folded, normalisation fused.

    Dead nodes, dropout and identities go, equal nodes are merged, what depends on constants alone is computed, and batch
    normalisation becomes part of the convolution or linear layer before it. Each step is proved on the example inputs; a
    fusion that is measured to be slower is left out, and the report says so. The new model is in eval mode, and is not to
    be trained further.

    Args:
        graph: The document; it is not changed.
        args: Positional example inputs; from the shapes of the Input nodes if neither these nor `kwargs` are given.
        kwargs: Those by name.
        reuse: Other weights than those of the graph, as in ``pn.compile``.

    Returns:
        The new document, its model, and a report of each step.

    Raises:
        ArgumentError: If an argument is of the wrong kind.
        CompileError: If the document cannot be compiled as it is, its weights are gone, or it has no shapes to make
            examples from.
    """
    steps = [RemoveDeadNodes(), FoldConstants(), MergeEqualNodes(), RemoveIdentities()]
    done = transformed(graph, steps, args, kwargs, reuse, "run")
    for layers in (tuple(type for type in PAIRS if type != "Linear"), ("Linear",)):
        trial = transform(done.graph, [FuseBatchNorm(layers)], args, kwargs, done.model)
        (report,) = trial.reports
        slower = next((gain for gain in report.gains if gain.measured and gain.after > SLOWER * gain.before), None)
        if slower is not None:
            report = msgspec.structs.replace(report, changes=(), refused=f"left out: {slower}")
        best = trial if report.changes else done
        if report.changes or report.skipped or report.refused:
            done = Transformed(best.graph, best.model, (*done.reports, report))
    done.model.eval()
    return done
