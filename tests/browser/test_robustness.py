"""What a notebook goes through: a kernel that restarts, a second tab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.jupyter import Notebook
from tests.browser.pages import EditorPage

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


def editor_on(notebook: Notebook) -> EditorPage:
    """The editor that the notebook shows, once it is drawn."""
    editor = EditorPage(notebook.page, notebook.page.get_by_test_id("pnne-editor"))
    expect(editor.node("fc")).to_be_visible()
    return editor


def test_a_restarted_kernel_is_told_at_once_and_the_cell_helps(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook(GRAPH, SHOW)
    notebook.run_all()
    editor = editor_on(notebook)
    notebook.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    notice = editor.root.get_by_role("alert").filter(has_text="run the cell again")
    expect(notice).to_be_visible(timeout=10_000)
    expect(notice.get_by_role("button", name="Copy graph as JSON")).to_be_visible()
    notebook.screenshot("kernel-restarted", editor.root)
    notebook.run_all()
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
