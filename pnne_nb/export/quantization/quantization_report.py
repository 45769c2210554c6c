"""The report of `pn.quantize`: the new document and model, and the savings and errors of each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, final

from torch import nn

from pnne_nb.catalog.quantized import Kind
from pnne_nb.compiler.passes.report import amount
from pnne_nb.export.quantization.scheme import INT8
from pnne_nb.graph.document import NodeGraph

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, slots=True)
class QuantizedNode:
    """The result for one node.

    Attributes:
        node: Its path.
        type: Its type before.
        precision: What it computes in now: ``"int8"``, ``"bfloat16"``, ``"float16"`` or ``"float32"``.
        reason: Why it stays in float32; empty if it does not.
        sqnr: Power of its outputs divided by that of their error, in decibels; None if it was not measured.
        worst: The largest error of one element of its outputs, in their unit; None likewise.
        index: Where that is; the first entry is the sample.
        damage: Power of the error at the model's outputs divided by theirs, if this node alone is converted; None likewise.
        bytes_before: Of its weights.
        bytes_after: Of its weights now.
        multiply_adds: For one example, on average; None if it was not measured.
    """

    node: str
    type: str
    precision: str
    reason: str = ""
    sqnr: float | None = None
    worst: float | None = None
    index: tuple[int, ...] = ()
    damage: float | None = None
    bytes_before: int = 0
    bytes_after: int = 0
    multiply_adds: int | None = None


@final
@dataclass(frozen=True, slots=True)
class QuantizationReport:
    """The result of `pn.quantize`.

    Attributes:
        graph: The new document, with converted nodes.
        model: What it compiles to, in eval mode: ``pn.compile(report.graph, reuse=report.model)``.
        kind: What was converted to.
        nodes: Every node with weights or products, by path, in the order in which they run.
        metric: What was measured on held-out data, such as ``"val_accuracy"``; empty if there was nothing to measure.
        before: Its value with the float model.
        after: Its value with the new model.
        budget: What it may lose: points of a percentage for a share such as accuracy, percent of the value otherwise.
        loss: What it lost, in the same unit; less than 0 if it became better.
        examples: Held-out examples that it was measured on.
        evaluations: How often a model was measured on them.
        bytes_before: Of all weights.
        bytes_after: Of all weights now.
        multiply_adds: Of the model for one example, on average.
        notes: What else a person should know, one sentence each.
    """

    graph: NodeGraph
    model: nn.Module
    kind: Kind
    nodes: Mapping[str, QuantizedNode]
    metric: str
    before: float
    after: float
    budget: float
    loss: float
    examples: int
    evaluations: int
    bytes_before: int
    bytes_after: int
    multiply_adds: int
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the metric stays within the budget, and at least one node is converted."""
        return self.loss <= self.budget and bool(self.converted)

    @property
    def converted(self) -> tuple[str, ...]:
        """Paths of the nodes that compute in lower precision."""
        return tuple(path for path, node in self.nodes.items() if node.precision != "float32")

    @property
    def left_in_float(self) -> tuple[str, ...]:
        """Paths of the nodes that could be converted and stay in float32 for the budget."""
        return tuple(
            path for path, node in self.nodes.items() if node.precision == "float32" and node.damage is not None
        )

    @property
    def share(self) -> float:
        """Part of the multiply-adds in lower precision, from 0 to 1."""
        done = sum(node.multiply_adds or 0 for node in self.nodes.values() if node.precision != "float32")
        return done / self.multiply_adds if self.multiply_adds else 0.0

    @property
    def headline(self) -> str:
        """The result in a sentence."""
        if not self.converted:
            return "No node was converted: the model is as it was."
        name = f"int8 ({self.kind})" if self.kind in INT8 else self.kind
        count = len(self.converted)
        said = (
            f"{count} node{'' if count == 1 else 's'} in {name}, {self.share:.0%} of the multiply-adds, "
            f"{amount(self.bytes_before, 'B')} → {amount(self.bytes_after, 'B')}"
        )
        if self.metric:
            said += f"; {self.metric} {self.before:.4g} → {self.after:.4g} on {self.examples} held-out examples"
        if self.left_in_float:
            said += f"; left in float32 for the budget: {', '.join(self.left_in_float)}"
        return f"{said}."

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each node, the most damaging first."""
        import pandas as pd  # noqa: PLC0415  # takes a while, and most reports need none

        ordered = sorted(self.nodes.values(), key=lambda node: -(node.damage or 0.0))
        rows = [{name: getattr(node, name) for name in QuantizedNode.__slots__} for node in ordered]
        return pd.DataFrame(rows, columns=list(QuantizedNode.__slots__)).set_index("node")

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        lines = [self.headline]
        lines += [f"  {path}: {node.reason}" for path, node in self.nodes.items() if node.reason]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        names = ("node", "type", "precision", "SQNR, dB", "worst element", "damage", "bytes", "multiply-adds", "")
        head = "".join(f"<th>{name}</th>" for name in names)
        ordered = sorted(self.nodes.values(), key=lambda node: -(node.damage or 0.0))
        rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(node))}</tr>" for node in ordered)
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return f"<p><b>{escape(self.headline)}</b></p><ul>{notes}</ul>{table}"


def _cells(node: QuantizedNode) -> tuple[str, ...]:
    worst = "" if node.worst is None else f"{node.worst:.2g} at {node.index}"
    sizes = f"{node.bytes_before:,}" + (f" → {node.bytes_after:,}" if node.bytes_after != node.bytes_before else "")
    return (
        node.node,
        node.type,
        node.precision,
        "" if node.sqnr is None else f"{node.sqnr:.1f}",
        worst,
        "" if node.damage is None else f"{node.damage:.2g}",
        sizes,
        "" if node.multiply_adds is None else f"{node.multiply_adds:,}",
        node.reason,
    )
