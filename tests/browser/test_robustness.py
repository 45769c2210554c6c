"""What a notebook goes through: a kernel that restarts, a second tab, a cell that is run again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import CDPSession, expect

from tests.browser.jupyter import Notebook
from tests.browser.pages import DashboardPage, EditorPage

if TYPE_CHECKING:
    from tests.browser.conftest import OpenNotebook

GRAPH = """
import pnne_nb as pn
graph = pn.NodeGraph("net")
graph.add("Input", name="x", shape=("N", 8))
graph.add("Linear", name="fc", in_features=8, out_features=8)
graph.connect("x", "fc")
graph.arrange()
"""
SHOW = "editor = pn.GraphEditor(graph, height=420)\neditor"
TRAIN = """
import torch
pn.TrainingDashboard(pn.TrainingEngine(torch.nn.Linear(8, 1), (torch.zeros(64, 8), torch.zeros(64, 1)), loss="MSELoss"))
"""
RERUNS = 50


def editor_on(notebook: Notebook) -> EditorPage:
    """The editor that the notebook shows, once it is drawn."""
    editor = EditorPage(notebook.page, notebook.page.get_by_test_id("pnne-editor"))
    expect(editor.node("fc")).to_be_visible()
    return editor


def test_a_restarted_kernel_is_told_at_once_and_the_cell_helps(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook(GRAPH, SHOW, TRAIN)
    notebook.run_all()
    editor = editor_on(notebook)
    dashboard = DashboardPage(notebook.page.locator(".pnne-dashboard"))
    expect(dashboard.state).to_have_text("Ready")
    notebook.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    notice = editor.root.get_by_role("alert").filter(has_text="run the cell again")
    expect(notice).to_be_visible()
    expect(notice.get_by_role("button", name="Copy graph as JSON")).to_be_visible()
    notebook.screenshot("kernel-restarted", editor.root)
    expect(dashboard.state).to_have_text("Not connected")
    expect(dashboard.root.get_by_text("run the cells again")).to_be_visible()
    expect(dashboard.button("Start")).to_have_attribute("aria-disabled", "true")
    notebook.run_all()
    expect(dashboard.state).to_have_text("Ready")
    editor = editor_on(notebook)
    expect(notice).to_have_count(0)
    editor.select("fc")
    notebook.page.keyboard.press("Delete")
    notebook.wait_for("'fc' not in graph.nodes")


def test_two_tabs_show_one_document(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook(GRAPH, SHOW)
    notebook.run_all()
    first = editor_on(notebook)
    notebook.save()
    other = open_notebook(path=notebook.path)
    second = editor_on(other)
    first.select("fc")
    notebook.page.keyboard.press("Delete")
    expect(second.node("fc")).to_have_count(0)
    second.button("Undo").click()
    expect(first.node("fc")).to_be_visible()
    second.add_by_click("ReLU", "act")
    expect(first.node("act")).to_be_attached()
    version = notebook.evaluate("graph.version")
    for editor in (first, second):
        expect(editor.root).to_have_attribute("data-version", str(version))


def measured(cdp: CDPSession) -> dict[str, float]:
    """What the page holds after its garbage was collected: JavaScript heap in bytes, nodes, listeners."""
    for _ in range(2):
        cdp.send("HeapProfiler.collectGarbage")
    found = {metric["name"]: float(metric["value"]) for metric in cdp.send("Performance.getMetrics")["metrics"]}
    return {name: found[name] for name in ("JSHeapUsedSize", "Nodes", "JSEventListeners")}


def test_running_the_cell_fifty_times_leaves_nothing_in_the_page(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook(GRAPH, SHOW)
    notebook.run_all()
    editor_on(notebook)
    cdp = notebook.page.context.new_cdp_session(notebook.page)
    cdp.send("Performance.enable")
    for _ in range(5):
        notebook.run_cell(1)
        editor_on(notebook)
    before = measured(cdp)
    for _ in range(RERUNS):
        notebook.run_cell(1)
        editor_on(notebook)
    after = measured(cdp)
    print(before, after)
    assert notebook.page.get_by_test_id("pnne-editor").count() == 1
    # Jupyter itself keeps some 13 listeners of each run of a cell with a slider; React alone adds 140 to an editor.
    assert after["JSEventListeners"] <= before["JSEventListeners"] + 13 * RERUNS
    assert after["Nodes"] <= before["Nodes"] + 20 * RERUNS, "an editor has hundreds of nodes"
    # Jupyter itself keeps some 40 kB of each run of a cell with a slider; a front end would be two megabytes.
    assert after["JSHeapUsedSize"] <= before["JSHeapUsedSize"] + 250_000 * RERUNS
