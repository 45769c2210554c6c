"""`QuantizationEditor`: shows the error of lower precision at each node, with switches that convert nodes."""

from __future__ import annotations

import copy
import html
import threading
from collections.abc import Collection, Mapping
from typing import Final, final

import ipywidgets

from pnne_nb.catalog.quantized import Kind
from pnne_nb.compiler.passes.report import amount
from pnne_nb.compiler.weights.weight_source import Reuse
from pnne_nb.errors import PnneError, choose, expect
from pnne_nb.export.quantization.quantization_report import QuantizationReport, QuantizedNode
from pnne_nb.export.quantization.scheme import INT8, KINDS
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.annex import OWN
from pnne_nb.inference.held_out import Budget, HeldOutCriterion, joined, read_examples
from pnne_nb.inference.quantize import PrecisionSearch
from pnne_nb.inference.targets.compare import compare_targets
from pnne_nb.inference.targets.target_table import TargetRow
from pnne_nb.process.fork import fork_safe
from pnne_nb.process.random_state import private_random_state
from pnne_nb.protocol.messages import NodeMark
from pnne_nb.runtime.data.open_data import Array, Data
from pnne_nb.widgets.editor.editor import GraphEditor
from pnne_nb.widgets.host.displays import answer_while_busy, close_parts
from pnne_nb.widgets.host.static_picture import Kept, KeptPicture
from pnne_nb.widgets.plots.svg_chart import PALETTE

MAX_ROWS: Final = 60
"""Nodes that have a switch: those with the most damage."""

TIMED: Final = "ONNX Runtime, int8"
"""The form whose latency is shown: eager PyTorch only imitates int8."""

BATCH: Final = 32
"""Examples in the batch that is timed."""

_HEIGHT: Final = 520
_NAMES: Final = "170px"
_BAR: Final = 72
_LINE: Final = "line-height:1.4;white-space:nowrap"
_HEADING: Final = (
    f'<div style="{_LINE}"><b><span style="display:inline-block;width:{_NAMES}">Convert</span>'
    f'<span style="display:inline-block;width:{_BAR + 8}px">damage</span>SQNR · mult-adds</b></div>'
)


@final
class QuantizationEditor(ipywidgets.HBox, Kept):
    """An interactive `pn.quantize`, with a switch for each node.

    It begins with the fewest nodes in float32 that the budget allows. The nodes are ordered by their damage. A click
    on a switch converts a node or keeps it in float32; the metric is then measured on the held-out data, and the latency
    with ONNX Runtime. The graph beside them marks each node with what it computes in and what that costs.

    ::

        editor = pn.QuantizationEditor(engine, budget=("val_accuracy", 0.5))
        editor.report  # of what is chosen now: editor.report.graph, editor.report.model

    Args:
        graph: A graph, a compiled or any other module, or a `TrainingEngine`. None of them is changed.
        data: As in `pn.quantize`.
        budget: As in `pn.quantize`.
        kind: As in `pn.quantize`.
        val_data: As in `pn.quantize`.
        reuse: Other weights than those of a graph, as in ``pn.compile``.

    Raises:
        ArgumentError: As `pn.quantize` does.
        ExportError: As `pn.quantize` does.
        TrainingError: As `pn.quantize` does.
    """

    def __init__(
        self,
        graph: object,
        data: Data | Array | None = None,
        budget: Budget | None = None,
        *,
        kind: Kind = "static",
        val_data: Data | Array | None = None,
        reuse: Reuse = OWN,
    ) -> None:
        self._kept = KeptPicture(lambda: "the quantised graph", self.to_html)
        self._changed = fork_safe(threading.Condition())  # guards what follows
        self._wanted: frozenset[str] | None = None
        self._at_work = False
        self._closed = False
        self._thread: threading.Thread | None = None
        choose(kind, KINDS, "kind")
        with private_random_state():
            examples = read_examples(graph, data, val_data, reuse)
            self._search = PrecisionSearch(examples, HeldOutCriterion(budget, examples), kind, ())
            self._report = self._fewest = self._search.report()
        self._calibration, self._held_out = joined(examples.calibration), joined(examples.held_out)
        self._setting = False
        measured = [node for node in self._report.nodes.values() if node.damage is not None]
        self._ranked = sorted(measured, key=lambda node: -(node.damage or 0.0))
        self._switches = {node.node: _switch(node) for node in self._ranked[:MAX_ROWS]}
        self._headline = ipywidgets.HTML()
        self._latency = ipywidgets.HTML()
        auto = ipywidgets.Layout(width="auto")
        reset = ipywidgets.Button(description="Fewest in float32", tooltip="What the budget allows", layout=auto)
        self._editor = GraphEditor(copy.copy(self._search.given), height=_HEIGHT, read_only=True)
        largest = max((node.damage or 0.0 for node in self._ranked), default=0.0)
        rows = [ipywidgets.HBox([self._switches[node.node], _facts(node, largest)]) for node in self._ranked[:MAX_ROWS]]
        more = len(self._ranked) - len(rows)
        table = ipywidgets.VBox(rows, layout=ipywidgets.Layout(max_height=f"{_HEIGHT - 150}px", overflow="auto"))
        note = [ipywidgets.HTML(f"<p>{more} nodes with less damage have no switch.</p>")] if more > 0 else []
        left = ipywidgets.VBox(
            [self._headline, self._latency, reset, ipywidgets.HTML(_HEADING), table, *note],
            layout=ipywidgets.Layout(width="400px", flex="0 0 auto", margin="0 12px 0 0"),
        )
        self._editor.layout.width = "100%"
        right = ipywidgets.Box([self._editor], layout=ipywidgets.Layout(flex="1 1 360px", min_width="0"))
        super().__init__([left, right], layout=ipywidgets.Layout(flex_flow="row wrap"))
        self.add_class("pnne-quantization")
        reset.on_click(lambda _: self.choose(self._fewest.left_in_float))
        answer_while_busy(reset)
        for switch in self._switches.values():
            switch.observe(self._switched, "value")
            answer_while_busy(switch)
        self._show(self._report)
        self.choose(self._fewest.left_in_float)

    def __repr__(self) -> str:
        return f"QuantizationEditor: {self._report.headline}"

    @property
    def report(self) -> QuantizationReport:
        """The report for the chosen nodes, as last measured; `settled` waits for the latest click."""
        return self._report

    @property
    def graph(self) -> NodeGraph:
        """The document in float32, as it is converted: batch normalisation is fused, and dropout removed."""
        return self._editor.graph

    def choose(self, left: Collection[str]) -> None:
        """Keep the nodes at the paths `left` in float32 and convert the others; they are measured in the background.

        Raises:
            ArgumentError: If `left` is no collection of paths.
        """
        expect(left, Collection, "left", "the paths of nodes", 'Such as ["conv1"].')
        self._setting = True
        try:
            for path, switch in self._switches.items():
                switch.value = path not in left
        finally:
            self._setting = False
        with self._changed:
            self._wanted, self._at_work = frozenset(left), True
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._measure, name="pnne-quantization", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def settled(self, timeout: float | None = None) -> bool:
        """Wait for the measurements of all choices, for at most `timeout` seconds; return whether they are complete."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._at_work, timeout)

    def to_html(self) -> str:
        """Return the measurements of the chosen nodes as a table that needs no kernel."""
        return f"{_headline(self._report)}{self._report._repr_html_()}"

    def close(self) -> None:
        """Stop measuring, and close all its widgets."""
        if not hasattr(self, "_changed"):
            return  # its arguments were refused, and ipywidgets closes what is left of it
        with self._changed:
            self._closed, self._at_work = True, False
            self._changed.notify_all()
        self._kept.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        close_parts(self)
        super().close()

    def _switched(self, _change: object) -> None:
        if not self._setting:
            # Without a switch, a node stays as the search had it.
            hidden = {path for path in self._fewest.left_in_float if path not in self._switches}
            self.choose(hidden | {path for path, switch in self._switches.items() if not switch.value})

    # In the thread that measures

    def _measure(self) -> None:
        while True:
            with self._changed:
                while self._wanted is None and not self._closed:
                    self._at_work = False
                    self._changed.notify_all()
                    self._changed.wait()
                if self._closed:
                    return
                left, self._wanted = self._wanted, None
            try:
                self._measure_one(left or frozenset())
            except Exception as error:  # noqa: BLE001  # whoever waits for it is told, and the next click is measured
                said = str(error) if isinstance(error, PnneError) else f"{type(error).__name__}: {error}"
                self._latency.value = _said(said)

    def _measure_one(self, left: frozenset[str]) -> None:
        self._latency.value = _said("Measuring …")
        with private_random_state():
            report = self._search.report(left)
            if self._is_late():
                return
            self._report = report
            self._show(report)
            if report.kind not in INT8 or not report.converted:
                self._latency.value = ""
                return
            table = compare_targets(
                self._search.examples.subject.model, self._calibration, val_data=self._held_out, targets=[TIMED],
                batch_size=BATCH, quantized=report,
            )  # fmt: skip
        if not self._is_late():
            self._latency.value = _said(_time(table.rows[TIMED]))

    def _is_late(self) -> bool:
        """Return whether the choice has changed since, so that a measurement is out of date."""
        with self._changed:
            return self._wanted is not None or self._closed

    def _show(self, report: QuantizationReport) -> None:
        self._headline.value = _headline(report)
        self._editor.marks = _marks(report)
        self._kept.changed()


def _switch(node: QuantizedNode) -> ipywidgets.Checkbox:
    return ipywidgets.Checkbox(
        value=node.precision != "float32", description=node.node, indent=False,
        tooltip=f"Whether {node.node} is converted", layout=ipywidgets.Layout(width=_NAMES, flex="0 0 auto"),
    )  # fmt: skip


def _facts(node: QuantizedNode, largest: float) -> ipywidgets.HTML:
    """Return a bar as long as the node's share of the largest damage, and its figures."""
    width = max(1, round(_BAR * (node.damage or 0.0) / max(largest, 1e-30)))
    said = "" if node.sqnr is None else f"{node.sqnr:.0f} dB"
    if node.multiply_adds:
        said += f" · {amount(node.multiply_adds, '')}"
    title = html.escape(f"{node.node}: damage {node.damage:.2g} at the outputs of the model", quote=True)
    return ipywidgets.HTML(
        f'<div style="{_LINE}" title="{title}">'
        f'<span style="display:inline-block;height:8px;width:{width}px;margin-right:{_BAR + 8 - width}px;'
        f'background:{PALETTE[1]}"></span>{html.escape(said)}</div>'
    )


def _headline(report: QuantizationReport) -> str:
    facts = []
    if report.metric:
        kept = "within" if report.loss <= report.budget else "over"
        facts.append(f"{report.metric} {report.before:.4g} → {report.after:.4g}")
        facts.append(f"lost {max(report.loss, 0.0):.2f} of {report.budget:g}: {kept} the budget")
    facts.append(f"{report.share:.0%} of the multiply-adds converted")
    facts.append(f"{amount(report.bytes_before, 'B')} → {amount(report.bytes_after, 'B')}")
    return f'<p style="line-height:1.4"><b>{html.escape("; ".join(facts))}.</b></p>'


def _time(row: TargetRow) -> str:
    if row.latency is None:
        return f"{TIMED}: {row.missing}"
    ratio = row.latency.ratio
    return (
        f"{TIMED}: {1e3 * row.latency.p50.value:.2f} ms for {BATCH} examples, which is {ratio.value:.2f} times what eager "
        f"PyTorch takes ({ratio.low:.2f} to {ratio.high:.2f})."
    )


def _said(text: str) -> str:
    return f'<p role="status" style="line-height:1.4">{html.escape(text)}</p>'


def _marks(report: QuantizationReport) -> Mapping[str, NodeMark]:
    """Return a mark for each node: the type that it computes in, coloured by its error."""
    found = {}
    for path, node in report.nodes.items():
        if node.precision == "float32":
            found[path] = NodeMark("float32", "plain" if node.damage is None else "warning", node.reason)
        else:
            title = "" if node.sqnr is None else f"SQNR {node.sqnr:.1f} dB, worst element off by {node.worst:.2g}"
            found[path] = NodeMark(node.precision, "good", title)
    return found
