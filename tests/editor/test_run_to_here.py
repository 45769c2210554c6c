"""The tensor at a port, as a view shows it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import sent
from tests.editor.test_access import violations


@pytest.fixture
def graph() -> NodeGraph:
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("LSTM", name="lstm", input_size=8, hidden_size=8)
    graph.add("ReLU", name="act")
    graph.connect("x", "lstm", "act")
    graph.arrange()
    return graph


def test_it_opens_by_key_and_by_menu_and_shows_the_tensor(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.node("lstm").click()
    editor.page.keyboard.press("i")
    panel = editor.root.get_by_role("dialog", name="Tensor at lstm.output")
    expect(panel).to_contain_text("float32 3 × 6 × 24 × 24")
    expect(panel.get_by_role("figure", name="How its values are spread")).to_be_visible()
    expect(panel.get_by_role("img", name="The first example, 6 channels")).to_be_visible()
    expect(panel).to_contain_text("A made-up example")
    panel.get_by_role("button", name="c_n").click()
    expect(editor.root.get_by_role("dialog", name="Tensor at lstm.c_n")).to_be_visible()
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("Escape")
    expect(editor.root.get_by_role("dialog")).to_have_count(0)
    editor.edge("lstm.output", "act.input").click(button="right", force=True)
    editor.root.get_by_role("menuitem", name=re.compile("^Run to here")).click()
    expect(editor.root.get_by_role("dialog", name="Tensor at lstm.output")).to_be_visible()
    assert [each["port"] for each in sent(editor.kernel, "runToHere")] == ["lstm.output", "lstm.c_n", "lstm.output"]
    assert sent(editor.kernel, "edit") == []


def test_after_an_edit_it_says_so_and_runs_again(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.node("act").click()
    editor.page.keyboard.press("i")
    panel = editor.root.get_by_role("dialog", name="Tensor at act.output")
    expect(panel).to_contain_text("float32")
    graph.set("lstm", hidden_size=9)
    editor.deliver()
    expect(panel).to_contain_text("The graph has changed since.")
    panel.get_by_role("button", name="Run again").click()
    expect(panel).not_to_contain_text("The graph has changed since.")
    assert len(sent(editor.kernel, "runToHere")) == 2


def test_a_refusal_stands_at_the_place(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.add("ReLU", name="y")
    graph.arrange()
    editor = open_editor(graph)
    editor.node("y").click()
    editor.page.keyboard.press("i")
    expect(editor.root.get_by_role("dialog")).to_contain_text("There is no example to run. Give every Input a shape.")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_has_no_serious_barrier(graph: NodeGraph, open_editor: OpenEditor, theme: str) -> None:
    editor = open_editor(graph, theme=theme)
    editor.node("lstm").click()
    editor.page.keyboard.press("i")
    expect(editor.root.get_by_role("dialog")).to_contain_text("float32")
    editor.screenshot(f"editor-run-to-here-{theme}")
    assert violations(editor) == ""
