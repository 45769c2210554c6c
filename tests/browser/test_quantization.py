"""Choosing which nodes are converted to int8, in a real JupyterLab: by clicks, beside the graph that they are drawn in."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.pages import EditorPage

MEASURE_SECONDS = 120.0
"""Writing a file for ONNX Runtime and timing it takes four seconds on a quiet machine."""

CELL = """
import torch
from sklearn.datasets import load_digits
from torch import nn
import pnne_nb as pn

pictures, classes = load_digits(return_X_y=True)
x, y = torch.tensor(pictures, dtype=torch.float32).view(-1, 1, 8, 8) / 16, torch.tensor(classes)
graph = pn.sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
    nn.Flatten(), nn.Linear(2048, 10), input=("N", 1, 8, 8),
)
engine = pn.TrainingEngine(graph, (x[:1400], y[:1400]), (x[1400:], y[1400:]), metrics=("accuracy",), epochs=2, device="cpu")
engine.start().wait()
chosen = pn.QuantizationEditor(engine, budget=("val_accuracy", 0.5))
chosen
"""


def test_a_click_keeps_a_node_in_float_while_metric_and_latency_move(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook(CELL)
    notebook.collapse_sidebar()
    notebook.run_cell(0)
    panel = notebook.page.locator(".pnne-quantization")
    editor = EditorPage(notebook.page, panel.get_by_test_id("pnne-editor"))
    conv = panel.get_by_role("checkbox", name="conv2d2", exact=True)
    expect(conv).to_be_checked()
    mark = editor.node("conv2d2").locator(".pnne-lens")
    expect(mark).to_have_text("int8")
    expect(panel).to_contain_text("times what eager PyTorch takes", timeout=1000 * MEASURE_SECONDS)
    notebook.screenshot("quantization-light", panel)
    notebook.set_theme("dark")
    notebook.screenshot("quantization-dark", panel)
    notebook.set_theme("light")

    conv.click()
    expect(mark).to_have_text("float32")
    expect(panel).not_to_contain_text("100% of the multiply-adds converted")
    notebook.wait_for("chosen.settled(0)")
    notebook.wait_for("chosen.report.left_in_float == ('conv2d2',)")
    panel.get_by_role("button", name="Fewest in float32").click()
    expect(conv).to_be_checked()
    expect(mark).to_have_text("int8")
    notebook.wait_for("chosen.settled(0)")
    assert not notebook.console_errors
