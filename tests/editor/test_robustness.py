"""What may come over the wire or stand in a document: nonsense, the wrong order, nothing, thousands, odd names."""

from __future__ import annotations

import re
import string
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.ops import AddNode, Connect, Op
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage, sent

MANY = 5_000

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
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="fc", in_features=8, out_features=8)
    graph.connect("x", "fc")
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


def test_commits_in_the_wrong_order_lead_to_the_same_document(open_editor: OpenEditor) -> None:
    editor = open_editor(pair())
    for name in ("first", "second", "third"):
        editor.graph.add("ReLU", name=name)
    for message in reversed(editor.kernel.pending()):
        editor.page.evaluate("message => window.model.receive(message)", message)
    for name in ("first", "second", "third"):
        expect(editor.node(name)).to_be_attached()
    editor.settle()
    delete_and_undo(editor, "fc")


def test_a_stale_snapshot_does_not_undo_what_has_come_since(open_editor: OpenEditor) -> None:
    editor = open_editor(pair())
    old = editor.page.evaluate("() => window.readSnapshot()")
    editor.graph.add("ReLU", name="later")
    editor.deliver()
    expect(editor.node("later")).to_be_attached()
    editor.page.evaluate("message => window.model.receive(message)", old)
    expect(editor.node("later")).to_be_attached()
    editor.settle()


def test_a_graph_of_nothing_says_what_to_do(open_editor: OpenEditor) -> None:
    editor = open_editor(NodeGraph())
    expect(editor.root).to_contain_text("Empty graph")
    expect(editor.root).to_contain_text("0 nodes")
    editor.button("Fit view").click()
    editor.button("Arrange").click()
    editor.add("ReLU")
    expect(editor.node("relu1")).to_be_visible()


def test_a_graph_of_thousands_opens_and_is_edited(open_editor: OpenEditor) -> None:
    graph = NodeGraph("large")
    ops: list[Op] = [AddNode("n0", "Input", {"shape": ("N", 8)}, (0.0, 0.0))]
    for index in range(1, MANY):
        place = (210.0 * (index // 100), 110.0 * (index % 100))
        ops += [AddNode(f"n{index}", "ReLU", {}, place), Connect(f"n{index - 1}.output", f"n{index}.input")]
    graph.apply(ops)
    editor = open_editor(graph)
    expect(editor.root).to_contain_text("5000 nodes")
    shown = editor.root.locator("[data-node]")
    count = shown.count()
    assert 0 < count < 300, "only what is in view is in the page"
    delete_and_undo(editor, shown.nth(count // 2).get_attribute("data-node") or "")
    editor.button("Fit view").click()
    expect(editor.root.locator(".pnne-far")).to_be_attached()
    assert len(sent(editor.kernel, "edit")) == 1


def test_names_may_have_every_legal_character(open_editor: OpenEditor) -> None:
    names = ["0", "_", f"n{string.ascii_letters}{string.digits}_", "n" * 100, "__x__"[2:]]
    graph = NodeGraph("names")
    last = graph.add("Input", name="x", shape=("N", 8))
    for name in names:
        node = graph.add("ReLU", name=name)
        graph.connect(last, node)
        last = node
    graph.arrange()
    editor = open_editor(graph)
    for source, target in pairwise(names):
        expect(editor.edge(f"{source}.output", f"{target}.input")).to_be_attached()
    field = editor.root.get_by_label("Name", exact=True)
    for name in names:
        editor.node(name).locator(".pnne-card-header").click()
        expect(field).to_have_value(name)
    field.fill("0123456789")
    field.press("Enter")
    expect(editor.node("0123456789")).to_be_visible()
    expect(editor.root).to_have_attribute("data-version", re.compile(r"\d+"))
    editor.settle()
    assert "0123456789" in graph.nodes
