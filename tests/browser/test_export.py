"""The Export dialog in a real JupyterLab: it writes a file, proves it, and leaves its report in the notebook."""

from __future__ import annotations

import re

import numpy as np
import onnxruntime
from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenNotebook
from tests.browser.pages import EditorPage

EXPORT_SECONDS = 120.0
"""An export that is proved takes four seconds on a quiet machine."""

GRAPH = """
import torch
import pnne_nb as pn

torch.manual_seed(0)
graph = pn.sequential(("Linear", {"in_features": 8, "out_features": 16}), torch.nn.ReLU(),
                      ("Linear", {"in_features": 16, "out_features": 4}), torch.nn.Softmax(1), input=("N", 8))
editor = pn.GraphEditor(graph, height=640)
editor
"""


def exported(dialog: Locator, file: str) -> Locator:
    """Export to a file, and return the report."""
    dialog.get_by_role("textbox", name="File").fill(file)
    dialog.get_by_role("button", name="Export and prove").click()
    expect(dialog.get_by_role("progressbar", name="Writing and proving the file")).to_be_visible()
    report = dialog.get_by_role("region", name="Report")
    expect(report).to_be_visible(timeout=1000 * EXPORT_SECONDS)
    return report


def test_an_export_is_checked_written_proved_and_kept(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook(GRAPH)
    notebook.collapse_sidebar()
    notebook.run_cell(0)
    editor = EditorPage(notebook.page, notebook.page.get_by_test_id("pnne-editor"))
    editor.button("Export").click()
    dialog = editor.root.get_by_role("dialog", name="Export")
    expect(dialog.get_by_role("combobox", name="Format")).to_have_value("onnx")
    expect(dialog).to_contain_text("Free sizes: N.")
    check = dialog.get_by_role("region", name="Check")
    expect(check).to_contain_text("It can be exported to onnx.", timeout=1000 * EXPORT_SECONDS)
    notebook.screenshot("export-check", editor.root)

    report = exported(dialog, "net.onnx")
    expect(report).to_contain_text("net.onnx computes what the model computes on 4 batches, and at 4 of 4 nodes.")
    expect(report.get_by_role("row")).to_have_count(5)
    expect(editor.node("linear1").locator(".pnne-lens")).to_have_class(re.compile("pnne-lens-(good|near)"))
    editor.node("linear2").locator(".pnne-card-header").click()
    spread = report.get_by_role("figure", name="Values of linear2")
    expect(spread).to_contain_text("model")
    expect(spread.locator("svg")).to_be_in_viewport()
    notebook.screenshot("export-report-light", editor.root)
    notebook.set_theme("dark")
    notebook.screenshot("export-report-dark", editor.root)
    notebook.set_theme("light")

    x = np.random.default_rng(0).standard_normal((5, 8), np.float32)
    session = onnxruntime.InferenceSession(notebook.directory / "net.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    expected = notebook.evaluate(f"editor.model.eval()(torch.tensor({x.tolist()})).tolist()")
    np.testing.assert_allclose(found, expected, atol=1e-5)

    dialog.get_by_role("button", name="Export and prove").click()
    expect(dialog.get_by_role("alert")).to_contain_text("exists already")
    dialog.get_by_role("textbox", name="File").fill("again.onnx")
    dialog.get_by_role("button", name="Export and prove").click()
    dialog.get_by_role("button", name="Cancel export").click()
    expect(dialog).to_contain_text("The export was cancelled; no file was written.", timeout=1000 * EXPORT_SECONDS)
    assert not list(notebook.directory.glob("*again*"))

    def is_kept() -> bool:
        kept = "".join(notebook.outputs(0)[1]["data"]["text/html"])
        return "net.onnx computes what the model computes" in kept

    notebook.wait_until(is_kept, "The picture that stays does not show the report.")


def test_the_dashboard_exports_the_trained_model(open_notebook: OpenNotebook) -> None:
    train = """
engine = pn.TrainingEngine(graph, (torch.randn(60, 8), torch.arange(60) % 4), epochs=2, device="cpu")
engine.start().wait()
pn.TrainingDashboard(engine)
"""
    notebook = open_notebook(GRAPH.replace("\neditor\n", "\n"), train)
    notebook.collapse_sidebar()
    notebook.run_all()
    notebook.scroll_to(1)
    dashboard = notebook.page.locator(".pnne-dashboard")
    dashboard.get_by_role("button", name="Export", exact=True).first.click()
    editor = EditorPage(notebook.page, dashboard.get_by_test_id("pnne-editor"))
    dialog = editor.root.get_by_role("dialog", name="Export")
    expect(dialog).to_contain_text("The weights are those of the training, and the file is proved on its data.")
    report = exported(dialog, "trained.onnx")
    expect(report).to_contain_text("compared on data: equal within rounding")
    notebook.screenshot("export-dashboard", dashboard)
    x = np.random.default_rng(0).standard_normal((5, 8), np.float32)
    session = onnxruntime.InferenceSession(notebook.directory / "trained.onnx", providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    expected = notebook.evaluate(f"engine.model.eval()(torch.tensor({x.tolist()})).tolist()")
    np.testing.assert_allclose(found, expected, atol=1e-5)
    dashboard.get_by_role("button", name="Export", exact=True).first.click()
    expect(editor.root).to_have_count(0)
