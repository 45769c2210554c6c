"""Other hosts than JupyterLab: nothing may rest on what only it has."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import STATIC

THEMED = re.compile(r"var\(\s*--(?:jp|vscode|colab)[\w-]*\s*(.)")


def test_no_colour_or_font_rests_on_one_host_alone() -> None:
    for sheet in ("editor.css", "controls.css", "canvas.css"):
        followed = THEMED.findall((STATIC / sheet).read_text(encoding="utf-8"))
        assert followed, f"{sheet} follows the host's theme"
        assert set(followed) == {","}, f"{sheet} has a variable of a host without a value for other hosts"


def test_nothing_asks_for_the_application_of_one_host() -> None:
    for script in ("editor.js", "controls.js", "explorer.js", "loader.js", "canvas.js"):
        text = (STATIC / script).read_text(encoding="utf-8")
        for name in ("jupyterapp", "jupyterlab", "window.Jupyter", "google.colab", "acquireVsCodeApi"):
            assert name not in text, f"{script} asks for {name}"


def test_a_page_without_a_kernel_shows_the_graph_plainly_and_says_so(open_editor: OpenEditor) -> None:
    # As a widget's state stored in a page: there is a snapshot, and nobody answers.
    graph = NodeGraph("small")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="fc1", out_features=8)
    graph.connect("x", "fc1")
    graph.arrange()
    editor = open_editor(graph, busy=True, own_page=True)
    expect(editor.node("fc1")).to_be_visible()
    expect(editor.root.locator(".pnne-unknown")).to_have_count(0)
    expect(editor.edge("x.output", "fc1.input")).to_be_attached()
    expect(editor.root.get_by_role("status").filter(has_text="Waiting for kernel")).to_be_visible()
    assert editor.page.evaluate("() => !('jupyterapp' in window)")
