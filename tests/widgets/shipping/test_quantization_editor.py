"""Which nodes are converted is chosen by clicks: what is measured is what `pn.quantize` would measure."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pnne_nb as pn
from pnne_nb.inference.quantize import PrecisionSearch
from pnne_nb.widgets.shipping import quantization_editor
from pnne_nb.widgets.shipping.quantization_editor import QuantizationEditor

DATA = (torch.randn(64, 6, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 3)


def network() -> pn.NodeGraph:
    torch.manual_seed(0)
    return pn.sequential(
        nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(), nn.Linear(12, 3), input=("N", 6)
    )


def opened(**options: object) -> QuantizationEditor:
    model = pn.compile(network())
    shown = QuantizationEditor(model, DATA, kind="bfloat16", **options)  # type: ignore[arg-type]  # any of its options
    assert shown.settled(60)
    return shown


def test_it_begins_with_what_quantize_finds() -> None:
    shown = opened()
    torch.manual_seed(0)
    expected = pn.quantize(pn.compile(network()), DATA, kind="bfloat16")
    assert shown.report.converted == expected.converted == ("linear1", "linear2")
    assert shown.report.after == expected.after
    assert "100% of the multiply-adds converted" in shown._headline.value
    assert [node.type for node in shown.graph.nodes.values()] == ["Input", "Linear", "ReLU", "Linear", "Output"]
    assert {path: (mark.text, mark.level) for path, mark in shown._editor.marks.items()} == {
        "linear1": ("bfloat16", "good"),
        "linear2": ("bfloat16", "good"),
    }
    shown.close()


def test_nodes_stand_in_the_order_of_their_damage() -> None:
    shown = opened()
    damage = [shown.report.nodes[path].damage or 0.0 for path in shown._switches]
    assert damage == sorted(damage, reverse=True)
    shown.close()


def test_a_click_keeps_a_node_in_float_and_converts_it_again() -> None:
    shown = opened()
    whole = shown.report
    shown._switches["linear1"].value = False
    assert shown.settled(60)
    assert shown.report.left_in_float == ("linear1",)
    assert shown.report.share < whole.share
    assert shown._editor.marks["linear1"] == pn.NodeMark("float32", "warning", "it was chosen by hand")
    x = DATA[0][:5]
    with torch.no_grad():
        assert torch.equal(pn.compile(shown.report.graph, reuse=shown.report.model).eval()(x), shown.report.model(x))
    shown._switches["linear1"].value = True
    assert shown.settled(60)
    assert shown.report.converted == whole.converted
    shown.choose(["linear1", "linear2"])
    assert shown.settled(60)
    assert shown.report.converted == ()
    assert [switch.value for switch in shown._switches.values()] == [False, False]
    shown.close()


def test_the_latency_is_that_of_int8_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pnne_nb.inference.targets.compare.TIMING_SECONDS", 0.01)
    shown = QuantizationEditor(pn.compile(network()), DATA)
    assert shown.settled(120)
    assert "ONNX Runtime, int8: " in shown._latency.value
    assert " times what eager PyTorch takes (" in shown._latency.value
    shown.close()


def test_a_measurement_that_fails_is_told_and_the_next_click_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, search = opened(), PrecisionSearch.report

    def fail(*_: object) -> None:
        raise RuntimeError("<no memory>")

    monkeypatch.setattr(PrecisionSearch, "report", fail)
    shown.choose(["linear1"])
    assert shown.settled(60)
    assert "RuntimeError: &lt;no memory&gt;" in shown._latency.value
    monkeypatch.setattr(PrecisionSearch, "report", search)
    shown.choose(["linear1"])
    assert shown.settled(60)
    assert shown.report.left_in_float == ("linear1",)
    shown.close()


def test_more_nodes_than_fit_keep_what_the_search_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization_editor, "MAX_ROWS", 1)
    shown = opened()
    [only] = shown._switches
    assert any(
        "1 nodes with less damage have no switch" in getattr(part, "value", "") for part in shown.children[0].children
    )
    shown._switches[only].value = False
    assert shown.settled(60)
    assert shown.report.left_in_float == (only,)
    shown.close()


def test_what_cannot_be_quantized_is_refused_as_by_quantize() -> None:
    with pytest.raises(pn.ArgumentError, match="There is no data to calibrate with"):
        QuantizationEditor(network())
    with pytest.raises(pn.ArgumentError, match="kind"):
        QuantizationEditor(network(), DATA, kind="int4")  # type: ignore[arg-type]  # on purpose
    shown = opened()
    with pytest.raises(pn.ArgumentError, match="left must be the paths of nodes"):
        shown.choose(3)  # type: ignore[arg-type]  # on purpose
    shown.close()


def test_what_was_measured_stays_as_a_table_without_a_kernel() -> None:
    shown = opened()
    assert "<td>linear1</td>" in shown.to_html()
    shown.close()
