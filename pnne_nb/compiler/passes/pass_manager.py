"""Applies passes in order, proves each one, and reports what it changed."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn

from pnne_nb.compiler.analysis.example_inputs import call_inputs
from pnne_nb.compiler.passes.equivalence import prove
from pnne_nb.compiler.passes.graph_pass import Pass, PassSubject, Rewrite
from pnne_nb.compiler.passes.report import Report, forward_gain
from pnne_nb.compiler.pipeline.compile import compile as compile_graph
from pnne_nb.compiler.pipeline.compile import made
from pnne_nb.compiler.weights.weight_source import Purpose, Reuse, keep_given, keep_latest
from pnne_nb.errors import ArgumentError, expect, shown
from pnne_nb.graph.document import NodeGraph, expect_graph
from pnne_nb.graph.model.annex import OWN


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
