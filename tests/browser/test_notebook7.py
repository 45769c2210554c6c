"""Notebook 7: the editor, the explorer and the dashboard work as in JupyterLab, and need nothing that only that has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.pages import EditorPage

if TYPE_CHECKING:
    from tests.browser.conftest import OpenNotebook

EDITOR = """
import torch
import pnne_nb as pn
graph = pn.NodeGraph("net")
graph.add("Input", name="x", shape=("N", 8))
graph.add("Linear", name="fc", in_features=8, out_features=3)
graph.add("Output", name="y")
graph.connect("x", "fc")
graph.connect("fc", "y")
editor = pn.GraphEditor(graph, height=420)
editor
"""
DASHBOARD = """
engine = pn.TrainingEngine(graph, (torch.randn(64, 8), torch.randint(0, 3, (64,))), epochs=10**7, device="cpu")
dashboard = pn.TrainingDashboard(engine)
dashboard
"""
EXPLORER = "pn.ModuleExplorer(pn.compile(graph))"


def test_edit_train_and_explore(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook(EDITOR, DASHBOARD, EXPLORER, size=(1300, 1500), interface="notebook")
    notebook.run_all()
    page = notebook.page
    editor = EditorPage(page, page.get_by_test_id("pnne-editor"))
    expect(editor.edge("fc.output", "y.input")).to_contain_text("N×3")
    expect(page.locator(".pnne-explorer")).to_be_visible()

    editor.select("fc")
    cells = notebook.evaluate("len(In)")
    for key in ("d", "d", "x", "b", "b", "Shift+Enter"):
        page.keyboard.press(key)
    assert page.locator(".jp-Notebook .jp-Cell").count() == 3, "the notebook takes keys that belong to the editor"
    assert notebook.evaluate("len(In)") == cells
    editor.set("fc", out_features="4")
    notebook.wait_for("graph.nodes['fc'].properties['out_features'] == 4")
    editor.button("Undo").click()
    notebook.wait_for("graph.nodes['fc'].properties['out_features'] == 3")

    dashboard = page.locator(".pnne-dashboard")
    dashboard.get_by_role("button", name="Start", exact=True).click()
    dashboard.get_by_role("button", name="Show on graph").click()
    expect(editor.root.get_by_role("region", name="Live training")).to_be_visible()
    line = dashboard.locator(".pnne-plots svg.svg-figure path.line").first
    expect(line).to_have_attribute("d", re.compile(r"^M.*L"))
    notebook.screenshot("notebook7")
    dashboard.get_by_role("button", name="Stop", exact=True).click()
    notebook.wait_for("engine.state == 'stopped'")

    page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    expect(editor.root.get_by_role("alert").filter(has_text="run the cell again")).to_be_visible()
