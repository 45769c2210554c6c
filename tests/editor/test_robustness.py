"""What may come over the wire: nonsense, and what cannot be drawn."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage

NONSENSE: list[Any] = [
    None,
    7,
    "text",
    [],
    {},
    {"message": "nonsense"},
    {"message": "committed"},
    {"message": "committed", "version": 10**9, "ops": [{"op": "explode"}], "label": "", "history": {}},
    {"message": "rejected"},
    {"message": "derivedChanged"},
    {"message": "training", "tick": "x", "layers": None},
    {"message": "preview", "id": -1},
    {"message": "snapshot"},
]


def pair() -> NodeGraph:
    graph = NodeGraph("pair")
    fc = ("Linear", {"name": "fc", "in_features": 8, "out_features": 8})
    graph.chain(("Input", {"name": "x", "shape": ("N", 8)}), fc)
    graph.arrange()
    return graph


def delete_and_undo(editor: EditorPage, name: str) -> None:
    """Show that the editor still works: edits are shown, told, and taken back."""
    editor.node(name).click()
    editor.page.keyboard.press("Delete")
    expect(editor.node(name)).to_have_count(0)
    editor.page.keyboard.press("Control+z")
    expect(editor.node(name)).to_be_visible()
    editor.settle()


@pytest.mark.parametrize("message", NONSENSE)
def test_a_message_that_makes_no_sense_leaves_the_editor_as_it_was(open_editor: OpenEditor, message: Any) -> None:
    editor = open_editor(pair())
    editor.page.evaluate("message => window.model.receive(message)", message)
    expect(editor.node("fc")).to_be_visible()
    delete_and_undo(editor, "fc")


def test_what_cannot_be_drawn_is_said_and_the_graph_can_be_saved(open_editor: OpenEditor) -> None:
    editor = open_editor(pair(), own_page=True)
    editor.page.evaluate(
        """() => window.model.receive(
          {message: "derivedChanged", version: 1, derived: {shapes: {"x.output": {shape: 5, dtype: "float32"}}}})"""
    )
    expect(editor.root.get_by_role("alert")).to_contain_text("failed to draw the graph")
    editor.button("Copy graph as JSON").click()
    assert '"fc"' in editor.page.evaluate("() => navigator.clipboard.readText()")
    editor.page.evaluate(
        """() => window.model.receive(
          {message: "derivedChanged", version: 1, derived: {shapes: {"x.output": null}}})"""
    )
    editor.button("Try again").click()
    expect(editor.node("fc")).to_be_visible()


def test_a_node_that_is_removed_while_it_is_dragged_ends_the_drag(open_editor: OpenEditor) -> None:
    editor = open_editor(pair())
    box = editor.node("fc").bounding_box()
    assert box is not None
    editor.drag_by(editor.node("fc").locator(".pnne-card-header"), box["x"] + 140, box["y"] + 90, drop=False)
    editor.graph.remove("fc")
    editor.deliver()
    expect(editor.node("fc")).to_have_count(0)
    editor.page.mouse.move(box["x"] + 160, box["y"] + 110, steps=3)
    editor.page.mouse.up()
    editor.node("x").click()
    expect(editor.root.get_by_role("textbox", name="Name")).to_have_value("x")
    assert list(editor.graph.nodes) == ["x"]


def test_leaving_the_editor_by_escape_is_said_before_and_after(open_editor: OpenEditor) -> None:
    editor = open_editor(pair())
    editor.node("fc").click()
    note = editor.root.locator(".pnne-keys-note")
    press = editor.page.keyboard.press
    press("Escape")
    expect(note).to_be_hidden()
    press("Escape")
    expect(note).to_contain_text("Escape again leaves")
    editor.screenshot("editor-leaving")
    press("f")
    expect(note).to_be_hidden()
    press("Escape")
    press("Escape")
    expect(note).to_contain_text("keys go to the notebook")
    assert not editor.root.evaluate("root => root.contains(document.activeElement)")
    editor.node("x").click()
    expect(note).to_be_hidden()
