"""Edges cut by a stroke."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage


@pytest.fixture
def graph() -> NodeGraph:
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.move("x", x=0, y=0)
    for name, place in (("a", (-150, 200)), ("b", (150, 200))):
        graph.add("ReLU", name=name)
        graph.move(name, x=place[0], y=place[1])
        graph.connect("x", name)
    return graph


def places(editor: EditorPage) -> tuple[float, float, float, float]:
    """Where the stroke begins, passes and ends, and how far down."""
    boxes = [editor.node(name).bounding_box() for name in ("x", "a", "b")]
    above, left, right = (box for box in boxes if box is not None)
    height = (above["y"] + above["height"] + left["y"]) / 2
    return left["x"] - 20, above["x"], right["x"] + right["width"] + 20, height


def draw(editor: EditorPage, *, drop: bool = True) -> None:
    """Draw from left to right between the Input and the two others."""
    mouse = editor.page.mouse
    start, middle, end, height = places(editor)
    mouse.move(start, height)
    mouse.down()
    mouse.move(middle, height, steps=6)
    mouse.move(end, height, steps=6)
    if drop:
        mouse.up()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_drag_with_alt_cuts_what_it_crosses_in_one_step(
    graph: NodeGraph, open_editor: OpenEditor, theme: str
) -> None:
    editor = open_editor(graph, theme=theme)
    view = editor.root.locator(".react-flow__viewport")
    before = view.get_attribute("style")
    editor.page.keyboard.down("Alt")
    draw(editor, drop=False)
    expect(editor.root.locator(".pnne-crossed")).to_have_count(2)
    editor.screenshot(f"editor-stroke-{theme}")
    editor.page.mouse.up()
    editor.page.keyboard.up("Alt")
    expect(editor.root.locator("[data-edge]")).to_have_count(0)
    editor.settle()
    assert len(graph.edges) == 0
    assert view.get_attribute("style") == before, "the canvas must not pan"
    editor.page.keyboard.press("Control+z")
    expect(editor.root.locator("[data-edge]")).to_have_count(2)


def test_a_key_makes_the_next_drag_a_stroke_and_escape_takes_it_back(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("k")
    draw(editor, drop=False)
    expect(editor.root.locator(".pnne-crossed")).to_have_count(2)
    editor.page.keyboard.press("Escape")
    editor.page.mouse.up()
    expect(editor.root.locator(".pnne-stroke")).to_have_count(0)
    expect(editor.root.locator("[data-edge]")).to_have_count(2)
    editor.page.keyboard.press("k")
    draw(editor)
    expect(editor.root.locator("[data-edge]")).to_have_count(0)


def test_a_finger_cuts_after_the_menu(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    *along, height = places(editor)
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("k")
    touch = editor.page.context.new_cdp_session(editor.page)
    for kind, x in zip(("touchStart", "touchMove", "touchMove"), along, strict=True):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": height}]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(editor.root.locator("[data-edge]")).to_have_count(0)
