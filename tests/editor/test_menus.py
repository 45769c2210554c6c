"""The menu, the list of keys, names on the card, and files on the canvas."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.test_access import violations

DROP_FILE = """([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name));
  const canvas = document.querySelector(".pnne-canvas");
  canvas.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


@pytest.fixture
def graph() -> NodeGraph:
    graph = NodeGraph("net")
    fc = ("Linear", {"name": "fc", "out_features": 8})
    graph.chain(("Input", {"name": "x", "shape": ("N", 8)}), fc, ("ReLU", {"name": "act"}))
    graph.arrange()
    return graph


def test_the_menu_opens_by_pointer_and_by_keys(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    menu = editor.root.get_by_role("menu")
    editor.node("fc").click(button="right")
    expect(menu.get_by_role("menuitem").first).to_be_focused()
    expect(editor.root.locator(".react-flow__node.selected [data-node=fc]")).to_be_visible()
    menu.get_by_role("menuitem", name=re.compile("^Duplicate")).click()
    expect(editor.node("fc2")).to_be_visible()
    expect(menu).to_have_count(0)
    editor.page.keyboard.press("Shift+F10")
    expect(menu).to_be_visible()
    editor.page.keyboard.press("End")
    expect(menu.get_by_role("menuitem", name=re.compile("close the gap"))).to_be_focused()
    editor.page.keyboard.press("Escape")
    expect(menu).to_have_count(0)
    expect(editor.root.get_by_role("region", name="Graph")).to_be_focused()
    editor.settle()
    assert list(graph.nodes) == ["x", "fc", "act", "fc2"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_menu_and_list_of_keys_have_no_serious_barrier(graph: NodeGraph, open_editor: OpenEditor, theme: str) -> None:
    editor = open_editor(graph, theme=theme)
    editor.node("fc").click(button="right")
    expect(editor.root.get_by_role("menu")).to_be_visible()
    editor.screenshot(f"editor-menu-{theme}")
    assert violations(editor) == ""
    editor.page.keyboard.press("Escape")
    editor.page.keyboard.press("?")
    sheet = editor.root.get_by_role("dialog", name="All keys and gestures")
    expect(sheet).to_be_focused()
    editor.screenshot(f"editor-keys-{theme}")
    assert violations(editor) == ""
    editor.page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)


def test_a_node_is_renamed_on_its_card(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.node("fc").click()
    editor.page.keyboard.press("F2")
    field = editor.root.get_by_role("textbox", name="Name of fc")
    expect(field).to_be_focused()
    editor.page.keyboard.type("class")
    expect(editor.node("fc").get_by_role("alert")).to_contain_text("means something in Python")
    editor.screenshot("editor-rename")
    editor.page.keyboard.press("Control+a")
    editor.page.keyboard.type("head")
    editor.page.keyboard.press("Enter")
    expect(editor.node("head")).to_be_visible()
    expect(editor.root.get_by_role("region", name="Graph")).to_be_focused()
    editor.node("act").locator(".pnne-card-name").dblclick()
    editor.page.keyboard.type("nothing")
    editor.page.keyboard.press("Escape")
    expect(editor.node("act")).to_be_visible()
    editor.settle()
    assert list(graph.nodes) == ["x", "head", "act"]
    assert graph.undo_label == "Rename fc to head"


def test_a_node_gets_another_type_in_its_place(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.node("act").click()
    editor.page.keyboard.press("t")
    editor.page.keyboard.type("gelu")
    editor.page.keyboard.press("Enter")
    expect(editor.root.locator('[data-node="act"][data-type="GELU"]')).to_be_visible()
    editor.settle()
    assert graph["act"].type == "GELU"
    assert [(edge.source, edge.target) for edge in graph.edges][-1] == ("fc.output", "act.input")
    graph.undo()
    assert graph["act"].type == "ReLU"


def test_a_result_of_the_search_over_the_canvas_is_taken_by_a_click(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.node("act").click()
    editor.page.keyboard.press("t")
    editor.page.keyboard.type("gelu")
    editor.root.get_by_role("dialog").locator('[data-type="GELU"]').click()
    expect(editor.root.locator('[data-node="act"][data-type="GELU"]')).to_be_visible()
    expect(editor.root.get_by_role("dialog")).to_have_count(0)


def test_a_type_that_would_lose_an_edge_is_listed_with_that_edge_and_refused(
    graph: NodeGraph, open_editor: OpenEditor
) -> None:
    graph.add("add", name="sum")
    graph.connect("act", "sum.input")
    graph.connect("x", "sum.other")
    graph.move("sum", 0, 400)
    editor = open_editor(graph)
    edges = graph.edges
    editor.node("sum").locator(".pnne-card-header").click()
    editor.page.keyboard.press("t")
    editor.page.keyboard.type("ReLU")
    option = editor.root.get_by_role("dialog").get_by_role("option").first
    expect(option).to_have_attribute("data-type", "ReLU")
    expect(option).to_contain_text("no port for x.output")
    editor.page.keyboard.press("Enter")
    expect(editor.toast).to_contain_text("sum keeps its type add: ReLU has no port for x.output → sum.other.")
    assert graph["sum"].type == "add"
    assert graph.edges == edges


def test_a_dropped_file_is_opened_or_refused(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.page.evaluate(DROP_FILE, ["notes.txt", "no graph"])
    expect(editor.toast).to_contain_text("notes.txt was not opened: it is not JSON")
    other = NodeGraph("other")
    other.add("Input", name="y", shape=("N", 3))
    editor.page.evaluate(DROP_FILE, ["other.pnne.json", json.dumps(json.loads(other.to_json()))])
    expect(editor.node("y")).to_be_visible()
    editor.settle()
    assert list(graph.nodes) == ["y"]
    assert graph.name == "other"
    graph.undo()
    assert list(graph.nodes) == ["x", "fc", "act"]


def test_the_zoom_is_a_number_and_goes_back_to_100_per_cent(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.page.emulate_media(reduced_motion="reduce")
    try:
        editor.root.get_by_role("region", name="Graph").focus()
        editor.page.keyboard.press("-")
        editor.page.keyboard.press("-")
        zoom = editor.root.get_by_role("button", name=re.compile("^Zoom "))
        expect(zoom).not_to_have_text("100 %")
        editor.page.keyboard.press("0")
        expect(zoom).to_have_text("100 %")
    finally:
        editor.page.emulate_media(reduced_motion="no-preference")
