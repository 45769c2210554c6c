"""A training on its graph in a real JupyterLab: switched on at the dashboard, moving while a cell is busy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.pages import EditorPage

if TYPE_CHECKING:
    from tests.browser.conftest import OpenNotebook

SETUP = """
import torch, pnne_nb as pn
from sklearn.datasets import load_digits

images, digits = load_digits(return_X_y=True)
x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
graph = pn.NodeGraph("digits")
last = graph.add("Input", name="image", shape=("N", 1, 8, 8))
for kind, name, values in [
    ("Conv2d", "conv1", {"out_channels": 8, "kernel_size": 3}), ("ReLU", "relu1", {}),
    ("Conv2d", "conv2", {"out_channels": 8, "kernel_size": 3}), ("ReLU", "relu2", {}),
    ("Flatten", "flat", {}), ("Linear", "classify", {"out_features": 10}), ("Output", "logits", {}),
]:
    node = graph.add(kind, name=name, **values)
    graph.connect(last, node)
    last = node
graph.arrange()
engine = pn.TrainingEngine(graph, (x, torch.tensor(digits)), epochs=10_000, device="cpu")
with torch.no_grad():
    engine.module.conv2.bias.fill_(-30.0)
editor = pn.GraphEditor(graph, height=760)
editor
"""
SHOW = "dashboard = pn.TrainingDashboard(engine); dashboard"


def test_the_graph_shows_its_training_while_a_cell_is_busy(
    open_notebook: OpenNotebook, baseline_errors: frozenset[str]
) -> None:
    notebook = open_notebook(SETUP, SHOW, size=(1500, 1700))
    notebook.run_all()
    notebook.collapse_sidebar()
    page = notebook.page
    editor, dashboard = EditorPage(page, page.get_by_test_id("pnne-editor")), page.locator(".pnne-dashboard")
    show = dashboard.get_by_role("button", name="Show on graph")
    dashboard.get_by_role("button", name="Start", exact=True).click()
    with notebook.busy_cell():
        show.click()
        legend = editor.root.get_by_role("region", name="Live training")
        expect(legend).to_contain_text(re.compile(r"step \d+"))
        first = legend.inner_text()
        expect(legend).not_to_have_text(first)
        expect(editor.node("relu2").get_by_role("img", name="dead")).to_be_visible()
        expect(editor.edge("relu2.output", "flat.input")).to_contain_text("∇ 0.")
        expect(show).to_have_attribute("aria-pressed", "true")
    legend.get_by_role("button", name="Hide the training").click()
    expect(legend).to_have_count(0)
    expect(show).to_have_attribute("aria-pressed", "false")
    show.click()
    expect(legend).to_be_visible()
    for theme in ("dark", "light"):
        notebook.set_theme("dark" if theme == "dark" else "light")
        notebook.screenshot(f"live-graph-{theme}", editor.root)
    dashboard.get_by_role("button", name="Stop", exact=True).click()
    expect(legend).to_have_count(0)
    expect(editor.node("conv1")).to_contain_text("Conv2d")
    assert set(notebook.console_errors) <= baseline_errors
