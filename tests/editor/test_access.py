"""Without a mouse, and for assistive tools: axe-core's rules, the keyboard's way through the graph, announcements."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage

AXE = Path(__file__).resolve().parents[2] / "js" / "node_modules" / "axe-core" / "axe.min.js"

VIOLATIONS = """async () => {
  const found = await axe.run(document.querySelector(".pnne-editor"), {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
  });
  return found.violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => html.slice(0, 160) + failureSummary)}`);
}"""


@pytest.fixture
def graph() -> NodeGraph:
    """``x -> fc1 -> fc2``, a loose node, and so a problem."""
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="fc1", out_features=8)
    graph.add("Linear", name="fc2", out_features=8)
    graph.add("ReLU", name="loose")
    graph.connect("x", "fc1")
    graph.connect("fc1", "fc2")
    for place, name in enumerate(graph.nodes):
        graph.move(name, 0, 130.0 * place)
    return graph


def violations(editor: EditorPage) -> str:
    """What axe-core finds serious, a line for each rule."""
    return "\n".join(editor.page.evaluate(VIOLATIONS))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(graph: NodeGraph, open_editor: OpenEditor, theme: str) -> None:
    editor = open_editor(graph, theme=theme)
    assert AXE.exists(), "Run `npm ci` in js/: the test needs axe-core."
    editor.page.evaluate("source => { new Function(source)(); }", AXE.read_text(encoding="utf-8"))
    assert violations(editor) == ""
    editor.node("fc1").click()
    editor.root.get_by_role("button", name="problem").click()
    editor.root.get_by_role("searchbox").fill("conv")
    assert violations(editor) == ""
    editor.node("fc2").click(modifiers=["Shift"])
    editor.button("Code").click()
    expect(editor.root.get_by_role("region", name="Source")).to_contain_text("can be shown")
    assert violations(editor) == ""
    editor.button("Close").click()
    editor.page.keyboard.press("Escape")
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("Space")
    expect(editor.root.get_by_role("dialog")).to_be_visible()
    editor.screenshot(f"editor-search-{theme}")
    assert violations(editor) == ""


def test_a_graph_is_read_and_edited_by_keyboard_alone(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    said = editor.root.locator(".pnne-said")
    editor.root.get_by_role("region", name="Graph").focus()
    press = editor.page.keyboard.press
    press("ArrowDown")
    expect(editor.node("x")).to_be_focused()
    expect(said).to_have_text("x, Input, N×8, 1 of 4")
    press("Alt+ArrowDown")
    expect(editor.node("fc1")).to_be_focused()
    assert editor.root.locator("[data-node][tabindex='0']").count() == 1
    press("Alt+ArrowDown")
    expect(editor.node("fc2")).to_be_focused()
    press("c")
    dialog = editor.root.get_by_role("dialog", name="Connect to")
    expect(dialog.get_by_role("option", name="loose.input")).to_be_visible()
    editor.page.keyboard.type("loose.in")
    press("Enter")
    expect(editor.edge("fc2.output", "loose.input")).to_be_attached()
    expect(said).to_have_text("Connect fc2.output → loose.input")
    press("Enter")
    expect(editor.root.get_by_role("textbox", name="Name")).to_be_focused()


def test_tab_leaves_the_canvas_for_who_came_by_keyboard(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.button("Full screen").focus()
    region = editor.root.get_by_role("region", name="Graph")
    region.focus()
    editor.page.keyboard.press("Tab")
    expect(editor.root.get_by_role("dialog")).to_have_count(0)
    expect(region).not_to_be_focused()
