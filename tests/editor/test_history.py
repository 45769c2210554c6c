"""The list of what was done."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.test_access import violations


@pytest.fixture
def graph() -> NodeGraph:
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.move("x", x=0, y=0)
    graph.add("ReLU", name="a")
    graph.move("a", x=0, y=200)
    graph.connect("x", "a")
    return graph


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_click_goes_to_where_the_graph_stood(graph: NodeGraph, open_editor: OpenEditor, theme: str) -> None:
    editor = open_editor(graph, theme=theme)
    editor.button("History").click()
    history = editor.root.get_by_role("dialog", name="History")
    expect(history.get_by_role("button", name="As it was opened")).to_be_visible()
    expect(history.locator("[aria-current]")).to_be_focused()
    expect(history.get_by_role("listitem")).to_have_count(6)
    history.get_by_role("listitem").nth(2).click()
    expect(editor.node("a")).to_have_count(0)
    editor.settle()
    assert list(graph.nodes) == ["x"]
    expect(history.get_by_role("listitem")).to_have_count(6)
    expect(history.locator("[aria-current]")).to_have_text(history.get_by_role("listitem").nth(2).inner_text())
    editor.screenshot(f"editor-history-{theme}")
    assert violations(editor) == ""
    editor.page.keyboard.press("End")
    editor.page.keyboard.press("Enter")
    expect(editor.edge("x.output", "a.input")).to_be_attached()
    editor.settle()
    assert len(graph.edges) == 1
    editor.page.keyboard.press("Escape")
    expect(history).to_have_count(0)
    editor.page.keyboard.press("z")
    expect(history).to_be_visible()


def test_an_edit_elsewhere_is_in_the_list(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.button("History").click()
    history = editor.root.get_by_role("dialog", name="History")
    expect(history.get_by_role("listitem")).to_have_count(6)
    graph.rename("a", "b")
    editor.deliver()
    expect(history.locator("[aria-current]")).to_contain_text("b")
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("Escape")
    expect(history).to_have_count(0)
