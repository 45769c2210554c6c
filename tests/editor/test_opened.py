"""Blocks that are open in place, in the browser: their frames, the room around them, and edits in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests import axe
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage, HostPage


@pytest.fixture
def graph() -> NodeGraph:
    """``x -> outer -> head -> y`` and ``x -> side -> y``; in ``outer``, ``stem -> inner``; in ``inner``, ``fc -> relu``."""
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    for name in ("stem", "fc", "head", "side"):
        graph.add("Linear", name=name, out_features=8)
    graph.add("ReLU", name="relu")
    graph.add("add", name="sum")
    graph.add("Output", name="y")
    graph.connect("x", "stem", "fc", "relu", "head", "sum.input")
    graph.connect("x", "side", "sum.other")
    graph.connect("sum", "y")
    graph.group(["fc", "relu"], name="inner")
    graph.group(["stem", "inner"], name="outer")
    graph.arrange()
    for id in graph.graphs:
        graph.arrange(id)
    return graph


SOME_FRAMES = """async () => {
  for (let frame = 0; frame < 5; frame += 1) await new Promise((next) => requestAnimationFrame(next));
}"""


def box(editor: EditorPage, name: str) -> Mapping[str, float]:
    found = editor.node(name).bounding_box()
    assert found is not None, name
    return {"x": found["x"], "y": found["y"], "width": found["width"], "height": found["height"]}


def is_within(inner: Mapping[str, float], outer: Mapping[str, float]) -> bool:
    return all(
        outer[start] <= inner[start] and inner[start] + inner[size] <= outer[start] + outer[size]
        for start, size in (("x", "width"), ("y", "height"))
    )


def overlap(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "width"), ("y", "height"))
    )


def focus(editor: EditorPage) -> None:
    editor.root.first.get_by_role("region", name="Graph").focus()


def press(editor: EditorPage, *keys: str) -> None:
    for key in keys:
        editor.page.keyboard.press(key)


@pytest.fixture(autouse=True)
def without_motion(host: HostPage) -> Iterator[None]:
    """The view goes where it goes at once: places are compared."""
    host.page.emulate_media(reduced_motion="reduce")
    yield
    host.page.emulate_media(reduced_motion="no-preference")


@pytest.fixture
def opened(graph: NodeGraph, open_editor: OpenEditor) -> EditorPage:
    """An editor in which ``outer`` is open in place, all of it in view."""
    editor = open_editor(graph, size=(1400, 1000))
    focus(editor)
    press(editor, "o", "f")
    expect(editor.node("outer.stem")).to_be_visible()
    return editor


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_block_opens_where_it_stands_and_what_is_beside_it_makes_room(
    graph: NodeGraph, open_editor: OpenEditor, theme: str
) -> None:
    editor = open_editor(graph, theme=theme, size=(1400, 1000))
    version = graph.version
    editor.node("outer").hover()
    editor.button("Open outer in place").click()
    expect(editor.node("outer.stem")).to_be_visible()
    expect(editor.edge("outer.stem.output", "outer.inner.input")).to_be_attached()
    expect(editor.edge("x.output", "outer.input")).to_be_attached()
    expect(editor.node("outer")).to_have_attribute("aria-label", "outer, Subgraph, Linear · inner, 1.2 k, open")
    focus(editor)
    press(editor, "f")
    frame = box(editor, "outer")
    for name in ("input", "stem", "inner", "output"):
        assert is_within(box(editor, f"outer.{name}"), frame), name
    for name in ("x", "side", "head", "sum", "y"):
        assert not overlap(box(editor, name), frame), name
    editor.screenshot(f"editor-opened-{theme}")
    assert axe.violations(editor.page, ".pnne-editor") == ""
    editor.node("outer").locator(".pnne-card-header").first.hover()
    editor.button("Close outer in place").click()
    expect(editor.node("outer.stem")).to_have_count(0)
    assert graph.version == version, "what is open belongs to the view"


def test_all_blocks_open_level_by_level_and_close_again(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph, size=(1400, 1000))
    focus(editor)
    press(editor, "o")
    expect(editor.node("outer.inner")).to_be_attached()
    expect(editor.node("outer.inner.fc")).to_have_count(0)
    press(editor, "o", "f")
    expect(editor.node("outer.inner.fc")).to_be_visible()
    assert is_within(box(editor, "outer.inner.fc"), box(editor, "outer.inner"))
    assert is_within(box(editor, "outer.inner"), box(editor, "outer"))
    press(editor, "o")
    expect(editor.toast).to_contain_text("All blocks are open.")
    press(editor, "Shift+o")
    expect(editor.node("outer.inner.fc")).to_have_count(0)
    expect(editor.node("outer.stem")).to_be_attached()
    press(editor, "Shift+o")
    expect(editor.node("outer.stem")).to_have_count(0)


def test_what_is_inside_is_selected_moved_and_deleted_in_its_own_graph(opened: EditorPage, graph: NodeGraph) -> None:
    before = graph.graphs["outer"].nodes["stem"].position
    opened.node("outer.stem").click()
    expect(opened.root.get_by_role("textbox", name="Name")).to_have_value("stem")
    here = box(opened, "outer.stem")
    opened.drag_by(opened.node("outer.stem"), here["x"] + here["width"] / 2 + 40, here["y"] + here["height"] / 2)
    opened.settle()
    after = graph.graphs["outer"].nodes["stem"].position
    assert before is not None
    assert after is not None
    assert after[0] > before[0]
    assert after[1] == before[1]
    assert graph.undo_label == "Move stem"
    opened.node("outer.stem").click()
    press(opened, "Delete")
    opened.settle()
    assert "stem" not in graph.graphs["outer"].nodes
    assert set(graph.graphs["outer"].nodes) == {"input", "inner", "output"}
    press(opened, "Control+z")
    opened.settle()
    expect(opened.node("outer.stem")).to_be_visible()


def test_keys_go_into_the_frame_and_out_of_it(opened: EditorPage) -> None:
    opened.node("outer").locator(".pnne-card-header").first.click()
    press(opened, "Enter")
    expect(opened.node("outer")).to_have_class("pnne-card pnne-open pnne-here")
    press(opened, "ArrowDown", "Alt+ArrowDown")
    expect(opened.root.get_by_role("textbox", name="Name")).to_have_value("stem")
    expect(opened.node("outer.stem")).to_be_focused()
    press(opened, "Escape", "Escape")
    expect(opened.root.get_by_role("textbox", name="Name", exact=True)).to_have_value("outer")
    expect(opened.node("outer.stem")).to_be_attached()
    press(opened, "o")
    expect(opened.node("outer.stem")).to_have_count(0)


def test_a_node_is_added_to_the_graph_that_is_clicked_in(opened: EditorPage, graph: NodeGraph) -> None:
    frame = box(opened, "outer")
    opened.page.mouse.dblclick(frame["x"] + frame["width"] - 5, frame["y"] + frame["height"] - 5)
    expect(opened.root.get_by_role("dialog")).to_be_visible()
    opened.page.keyboard.type("GELU")
    press(opened, "Enter")
    added = opened.root.locator('[data-type="GELU"]:not([role="option"])')
    expect(added).to_have_attribute("data-node", "outer.gelu1")
    opened.settle()
    assert "gelu1" in graph.graphs["outer"].nodes
    assert not any(node.type == "GELU" for node in graph.nodes.values())


def test_an_edge_does_not_cross_the_frame(opened: EditorPage, graph: NodeGraph) -> None:
    edges = graph.version
    opened.drag(opened.port("x.output"), opened.port("outer.inner.input"))
    expect(opened.toast).to_contain_text("An edge stays in its graph: connect it with a port of the block.")
    assert graph.version == edges
    opened.drag(opened.port("side.output"), opened.port("outer.input"))
    opened.settle()
    assert graph.undo_label == "Connect side.output → outer.input instead of x.output"


def test_a_card_beyond_the_frame_stays_where_it_is_dropped(opened: EditorPage, graph: NodeGraph) -> None:
    here, frame = box(opened, "y"), box(opened, "outer")
    opened.drag_by(
        opened.node("y"), here["x"] + here["width"] / 2 + 30, here["y"] + here["height"] / 2 + 12, drop=False
    )
    opened.page.evaluate(SOME_FRAMES)
    opened.page.mouse.up()
    opened.settle()
    assert graph.undo_label == "Move y"
    after = box(opened, "y")
    assert after["x"] - here["x"] == pytest.approx(30, abs=1.5)
    assert after["y"] - here["y"] == pytest.approx(12, abs=1.5)
    assert box(opened, "outer") == frame, "the view does not go after what is dragged where Fit has put it"
    opened.drag_by(
        opened.node("outer").locator(".pnne-card-header").first, frame["x"] + frame["width"] / 2 - 30, frame["y"] + 20
    )
    opened.settle()
    assert graph.undo_label == "Move outer"
    assert is_within(box(opened, "outer.stem"), box(opened, "outer"))


def test_the_view_goes_on_with_a_card_that_is_dragged_to_its_very_edge(opened: EditorPage, graph: NodeGraph) -> None:
    canvas = opened.root.first.get_by_role("region", name="Graph").bounding_box()
    assert canvas is not None
    before = box(opened, "outer")
    opened.drag_by(opened.node("y"), canvas["x"] + canvas["width"] / 2, canvas["y"] + canvas["height"] - 4, drop=False)
    opened.page.wait_for_function(
        """top => document.querySelector('[data-node="outer"]').getBoundingClientRect().top < top - 60""",
        arg=before["y"],
    )
    opened.page.mouse.up()
    opened.settle()
    assert graph.undo_label == "Move y"


def test_what_is_open_is_kept_per_view_and_offered_in_the_menu(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph, views=2)
    editor.node("outer").click(button="right")
    editor.root.first.get_by_role("menuitem", name="Open the block in place, or close it").click()
    expect(editor.node("outer.stem")).to_be_attached()
    expect(editor.root.last.locator('[data-node="outer"]')).to_be_attached()
    expect(editor.root.last.locator('[data-node="outer.stem"]')).to_have_count(0)


def test_a_block_that_goes_while_one_is_inside_leads_back_to_the_graph_around(
    opened: EditorPage, graph: NodeGraph
) -> None:
    opened.node("outer.stem").click()
    graph.remove("outer")
    opened.deliver()
    opened.settle()
    expect(opened.node("outer")).to_have_count(0)
    expect(opened.root.get_by_role("navigation", name="Nested graphs")).to_have_count(0)
    press(opened, "Control+a", "Delete")
    opened.settle()
    assert len(graph.nodes) == 0
