"""Applies passes in order, proves each one, and reports what it changed; ``pn.optimize_for_inference`` chooses them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, final

import msgspec
import torch
from torch import nn

from pnne_nb.compiler.analysis.example_inputs import call_inputs
from pnne_nb.compiler.ir.snapshot import NO_WIRES
from pnne_nb.compiler.passes.batchnorm_fusion import PAIRS, FuseBatchNorm
from pnne_nb.compiler.passes.common_subexpressions import MergeEqualNodes
from pnne_nb.compiler.passes.constant_folding import FoldConstants
from pnne_nb.compiler.passes.dead_nodes import RemoveDeadNodes
from pnne_nb.compiler.passes.equivalence import Promise, prove
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite, borrowed, consumers, remove, rewire
from pnne_nb.compiler.passes.report import Change, Gain, Report, forward_gain
from pnne_nb.compiler.pipeline.compile import compile as compile_graph
from pnne_nb.compiler.pipeline.compile import made
from pnne_nb.compiler.weights.weight_source import Purpose, Reuse, keep_given, keep_latest
from pnne_nb.errors import ArgumentError, expect, shown
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.model.annex import OWN
from pnne_nb.graph.model.node import split_port


@final
@dataclass(frozen=True, eq=False, repr=False)
class Transformed:
    """Result of `transform`: graph, model and reports.

    Attributes:
        graph: The new document; the given one is as it was.
        model: What it compiles to, with the tensors of the model before.
        reports: What each pass did, in order.
    """

    graph: NodeGraph
    model: nn.Module
    reports: tuple[Report, ...]

    def __repr__(self) -> str:
        return "\n".join(map(str, self.reports)) or "No passes."

    def _repr_html_(self) -> str:
        return "".join(report._repr_html_() for report in self.reports) or "No passes."


def transform(
    graph: NodeGraph,
    passes: Iterable[Pass],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    reuse: Reuse = OWN,
) -> Transformed:
    """Apply passes to a document, in order.

    After each, the model is compared with the one before it, on the example inputs; if it does not keep what the
    pass promises, the change is taken back and the report says why.

    Args:
        graph: The document; it is not changed.
        passes: From ``pn.passes``.
        args: Positional example inputs; from the shapes of the Input nodes if neither these nor `kwargs` are given.
        kwargs: Those by name.
        reuse: Other weights than those of the graph, as in ``pn.compile``.

    Raises:
        ArgumentError: If an argument is of the wrong kind.
        CompileError: If the document cannot be compiled as it is, or has no shapes to make examples from.
        PassError: If a pass cannot do what was asked of it.
    """
    return transformed(graph, passes, args, kwargs, reuse, "make")


def transformed(
    graph: NodeGraph,
    passes: Iterable[Pass],
    args: Any,
    kwargs: Mapping[str, Any] | None,
    reuse: Reuse,
    purpose: Purpose,
) -> Transformed:
    """Apply passes as `transform` does; for the `purpose`, see `pipeline.compile.made`."""
    expect_graph(graph)
    passes = checked_passes(passes)
    graph = copy.copy(graph)
    model, whose, _, _ = made(graph, reuse, purpose)
    args, kwargs = call_inputs(graph, model, args, kwargs)
    reports = []
    for each in passes:
        subject = PassSubject(copy.copy(graph), model, args, kwargs)
        rewrite = each.rewrite(subject)
        if not rewrite.changes:
            reports.append(Report(each.name, skipped=rewrite.skipped))
            continue
        after = _compiled(subject, rewrite)
        proof = prove(model, after, args, kwargs, each.promise)
        if not proof.holds:
            reports.append(Report(each.name, skipped=rewrite.skipped, proof=proof, refused=proof.difference))
            continue
        gains = list(rewrite.gains)
        if each.timed:
            gains.append(forward_gain(copy.deepcopy(model).eval(), copy.deepcopy(after).eval(), args, kwargs))
        if "train" not in each.promise.modes:
            after.eval()
        reports.append(Report(each.name, tuple(rewrite.changes), rewrite.skipped, tuple(gains), proof))
        graph, model = subject.graph, after
    if whose:
        keep_given(graph, model, whose)
    else:
        keep_latest(graph, "shown", "the model after the passes", lambda: nullcontext(model))
    return Transformed(graph, model, tuple(reports))


def checked_passes(passes: Iterable[Pass]) -> tuple[Pass, ...]:
    """Return `passes` if each is a pass.

    Raises:
        ArgumentError: If one of them is something else.
    """
    expect(passes, Iterable, "passes", "passes from pn.passes")
    passes = tuple(passes)
    for each in passes:
        if not isinstance(each, Pass):
            raise ArgumentError(f"A pass is an object such as pn.passes.RemoveDeadNodes(), not {shown(each)}.")
    return passes


def _compiled(subject: PassSubject, rewrite: Rewrite) -> nn.Module:
    model = compile_graph(subject.graph, reuse=subject.model)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    with torch.no_grad():
        for name, value in rewrite.tensors.items():
            tensors[name].copy_(value)
    return model


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
