"""`pn.quantize`: converts as many nodes to lower precision as a budget for the metric allows."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import final

import torch
from torch import nn

from pnne_nb.catalog.quantized import Kind
from pnne_nb.compiler.analysis.nested_values import difference
from pnne_nb.compiler.passes import FuseBatchNorm, RemoveDeadNodes, RemoveIdentities, transform
from pnne_nb.compiler.passes.graph_pass import PassSubject
from pnne_nb.compiler.shapes.cost import state_bytes
from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import ExportError, choose
from pnne_nb.export.formats.base import numbered_axes
from pnne_nb.export.quantization.calibration import (
    PrecisionLoss,
    calibrate,
    correct_biases,
    measure_nodes,
    replaced,
    require_calibration,
    total_multiply_adds,
)
from pnne_nb.export.quantization.candidates import (
    Candidate,
    find_candidates,
    require_inference_graph,
    rewrite,
    separate_uses,
)
from pnne_nb.export.quantization.quantization_report import QuantizationReport, QuantizedNode
from pnne_nb.export.quantization.scheme import INT8, KINDS, ConvertedLayer, InputRange, convert
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OWN
from pnne_nb.inference.held_out import Budget, Examples, HeldOutCriterion, read_examples
from pnne_nb.process.random_state import private_random_state
from pnne_nb.runtime.data.batches import Batch
from pnne_nb.runtime.data.open_data import Array, Data

ERROR_BATCHES = 2
"""Held-out batches that the error of each node is measured on."""

TRIALS = 24
"""Models at most that are measured on the held-out data."""


def quantize(
    graph: object,
    data: Data | Array | None = None,
    budget: Budget | None = None,
    *,
    kind: Kind = "static",
    val_data: Data | Array | None = None,
    reuse: Reuse = OWN,
    keep: Sequence[str] = (),
) -> QuantizationReport:
    """Convert layers to lower precision, and leave as few as possible in float32 to keep a metric within a budget.

    Each node that can be converted is measured on real batches: its own error, and what that does to the model's
    outputs. Nodes are then left in float32 in the order of that damage, as few as the budget allows. The result is again
    a document: converted nodes are node types such as ``QuantizedConv2d``, which can be drawn, saved and exported.
    Dropout is removed and batch normalisation fused into the layers before it first.

    A converted model is not faster by itself: in eager PyTorch, int8 layers compute with rounded floats. The kernels come
    with ``torch.compile`` or ONNX Runtime, and `pn.compare_targets` measures what is worth it on this machine.

    Args:
        graph: A graph, a compiled or any other module, or a `TrainingEngine`. None of them is changed.
        data: Real examples with targets, in any form that `TrainingEngine` takes; an engine's own if None. Ranges are
            measured on them.
        budget: A metric and what it may lose on held-out data: ``("val_accuracy", 0.5)`` is half a point of a percentage;
            of metrics that are no shares, such as ``"val_loss"``, percent of the value. None chooses by the targets;
            without targets, nothing is left in float32.
        kind: ``"static"``: int8 weights and inputs, with ranges from `data`; ``"dynamic"``: int8, the range is that of
            each batch (linear layers); ``"weight_only"``: int8 weights, float inputs; ``"bfloat16"``, ``"float16"``.
        val_data: Held-out examples with targets; without them, every fourth batch of `data` calibrates and the others
            judge.
        reuse: Other weights than those of a graph, as in ``pn.compile``.
        keep: Paths of nodes to leave in float32.

    Returns:
        The new document and model, and for every node what it gained and cost, or why it was skipped.

    Raises:
        ArgumentError: There is no data, or an argument of the wrong kind.
        ExportError: The graph is unfinished, describes a training, or does not take the data; diagnostics name the nodes.
        TrainingError: There is no such metric.
    """
    choose(kind, KINDS, "kind")
    if isinstance(graph, NodeGraph):
        require_inference_graph(graph)
    with private_random_state():
        examples = read_examples(graph, data, val_data, reuse)
        return PrecisionSearch(examples, HeldOutCriterion(budget, examples), kind, keep).report()


@final
class PrecisionSearch:
    """The search for the fewest nodes to leave in float32; for `kind` and `keep`, and the errors, see `quantize`."""

    def __init__(self, examples: Examples, criterion: HeldOutCriterion, kind: Kind, keep: Sequence[str]) -> None:
        self.examples, self._criterion, self._kind = examples, criterion, kind
        drawn = examples.subject.graph
        if drawn is None:
            raise ExportError(
                f"The module has no drawing, so its layers cannot be told apart. {examples.subject.notes[0]}"
            )
        inputs = examples.calibration[0].inputs
        steps = [RemoveDeadNodes(), RemoveIdentities(), FuseBatchNorm()]
        fused = transform(separate_uses(drawn), steps, args=inputs, reuse=examples.subject.model)
        self._notes = list(examples.notes)
        if fixed := numbered_axes(examples.subject.inputs):
            self._notes.append(f"It was calibrated and measured at these sizes only: {', '.join(map(str, fixed))}.")
        norms = [change for report in fused.reports for change in report.changes if change.what == "fused"]
        if norms:
            times = "once" if len(norms) == 1 else f"{len(norms)} times"
            self._notes.append(f"Batch normalisation was fused into the layer before it, {times}.")
        self._subject = PassSubject(fused.graph, fused.model.eval().requires_grad_(False), inputs, {})
        self._candidates, self._skipped = find_candidates(self._subject, kind)
        unknown = [path for path in keep if path not in {each.path for each in self._candidates}]
        if unknown:
            known = ", ".join(each.path for each in self._candidates)
            raise ExportError(f"keep names {', '.join(unknown)}, which would not be converted: {known} would be.")
        self._skipped |= dict.fromkeys(keep, "it is named by keep")
        self._drop(keep)
        ranges: Mapping[str, InputRange] = {}
        calls = [functools.partial(_call, batch=batch) for batch in examples.calibration]
        if kind == "static":
            ranges = calibrate(self._model, self._candidates, calls)
            unseen = require_calibration(ranges, self._candidates)
            self._skipped |= unseen
            self._drop(unseen)
        self._layers: dict[str, ConvertedLayer] = {
            each.module: convert(self._model.get_submodule(each.module), kind, ranges.get(each.path, InputRange()))
            for each in self._candidates
        }
        if kind == "static":
            self._layers = correct_biases(self._model, self._candidates, self._layers, calls)
        self._modules = {held: layer.module() for held, layer in self._layers.items()}
        self._values: dict[frozenset[str], float] = {}

    @property
    def given(self) -> NodeGraph:
        """The float32 document before the conversion: fused and without dropout."""
        return self._subject.graph

    @property
    def _model(self) -> nn.Module:
        return self._subject.model

    def _drop(self, paths: Sequence[str] | Mapping[str, str]) -> None:
        self._candidates = [each for each in self._candidates if each.path not in paths]

    def report(self, left: Collection[str] | None = None) -> QuantizationReport:
        """Return the report for the nodes `left` in float32, by their paths; None searches for the fewest within the budget."""
        errors, total, measured = self._errors
        if left is None:
            left = self._fewest(sorted(self._candidates, key=lambda each: -errors[each.path].damage))
        else:
            left = {each.path: "it was chosen by hand" for each in self._candidates if each.path in left}
        chosen = [each for each in self._candidates if each.path not in left]
        before, after = self._value([]), self._value(chosen)
        bytes_before = state_bytes(self._model)
        graph, model = rewrite(self._subject, chosen, self._layers)
        self._prove(model, chosen)
        nodes = self._nodes(errors, left, measured)
        return QuantizationReport(
            graph=graph, model=model, kind=self._kind, nodes=nodes, metric=self._criterion.name, before=before, after=after,
            budget=self._criterion.budget, loss=self._criterion.lost(before, after), examples=self.examples.count,
            evaluations=len(self._values), bytes_before=bytes_before, bytes_after=state_bytes(model), multiply_adds=total,
            notes=tuple(self._notes),
        )  # fmt: skip

    @functools.cached_property
    def _errors(self) -> tuple[dict[str, PrecisionLoss], int, int]:
        """The error of each node, the multiply-adds of one example, and the number of measured examples."""
        calls = [functools.partial(_call, batch=batch) for batch in self.examples.held_out[:ERROR_BATCHES]]
        measured = sum(batch.examples for batch in self.examples.held_out[:ERROR_BATCHES])
        errors = measure_nodes(self._model, self._modules, self._candidates, calls)
        return errors, total_multiply_adds(self._model, calls) // max(1, measured), measured

    def _fewest(self, ranked: Sequence[Candidate]) -> dict[str, str]:
        """Return the nodes to leave in float32, each with the reason: by bisection, then one by one back again."""
        if not ranked or self._keeps(ranked):
            return {}
        low, high = 1, len(ranked)  # without the first `high`, the budget is kept
        while low < high:
            middle = (low + high) // 2
            if self._keeps(ranked[middle:]):
                high = middle
            else:
                low = middle + 1
        left = list(ranked[:high])
        for each in reversed(ranked[: high - 1]):
            if len(self._values) >= TRIALS:
                self._notes.append(f"The search ended after {TRIALS} models: fewer nodes in float32 may suffice.")
                break
            fewer = [other for other in left if other is not each]
            if self._keeps([other for other in ranked if other not in fewer]):
                left = fewer
        said = f"{self._criterion.name} would lose more than {self._criterion.budget:g} % with it"
        return dict.fromkeys((each.path for each in left), said)

    def _keeps(self, converted: Sequence[Candidate]) -> bool:
        lost = self._criterion.lost(self._value([]), self._value(converted))
        return lost <= self._criterion.budget

    def _value(self, converted: Sequence[Candidate]) -> float:
        key = frozenset(each.path for each in converted)
        if key not in self._values:
            with replaced(self._model, converted, self._modules):
                self._values[key] = self._criterion.value(self._model, self.examples.held_out)
        return self._values[key]

    def _prove(self, model: nn.Module, chosen: Sequence[Candidate]) -> None:
        """Compare the compiled model, on a held-out batch, with the one that was measured; an error if they differ."""
        call = functools.partial(_call, batch=self.examples.held_out[0])
        with torch.inference_mode():
            with replaced(self._model, chosen, self._modules):
                measured = call(self._model)
            found = call(model)
        if said := difference(measured, found):
            raise ExportError(f"The compiled model is another one than was measured ({said}): please report this.")

    def _nodes(
        self, errors: Mapping[str, PrecisionLoss], left: Mapping[str, str], examples: int
    ) -> dict[str, QuantizedNode]:
        found: dict[str, QuantizedNode] = {}
        name = "int8" if self._kind in INT8 else self._kind
        known = {each.path: each for each in self._candidates}
        modules = dict(self._model.named_modules())
        for path, node in self._subject.walk():
            held = modules.get(self._subject.module_path(path))
            size = state_bytes(held) if held is not None else 0
            if path in known:
                error, reason = errors[path], left.get(path, "")
                found[path] = QuantizedNode(
                    path, node.type, "float32" if reason else name, reason, error.sqnr, error.worst, error.index,
                    error.damage, size, size if reason else state_bytes(self._modules[known[path].module]),
                    error.multiply_adds // max(1, examples),
                )  # fmt: skip
            elif path in self._skipped:
                found[path] = QuantizedNode(
                    path, node.type, "float32", self._skipped[path], bytes_before=size, bytes_after=size
                )
        return found


def _call(model: nn.Module, batch: Batch) -> object:
    return model(*batch.inputs)
