"""``pn.optimize_for_inference``: the passes that make a trained model smaller or faster, without those that do not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pnne_nb.compiler.passes.batchnorm_fusion import PAIRS, FuseBatchNorm
from pnne_nb.compiler.passes.common_subexpressions import MergeEqualNodes
from pnne_nb.compiler.passes.constant_folding import FoldConstants
from pnne_nb.compiler.passes.dead_nodes import RemoveDeadNodes
from pnne_nb.compiler.passes.pass_manager import Transformed, transform, transformed
from pnne_nb.compiler.passes.remove_identities import RemoveIdentities
from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OWN

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
