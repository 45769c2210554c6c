"""Frames and collapsed nodes in the browser: made, moved, resized, written on, by mouse and by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.layout.geometry import COLLAPSED_HEIGHT, COLLAPSED_WIDTH
from tests.editor.conftest import OpenEditor, chain
from tests.editor.page import EditorPage


@pytest.fixture
def graph() -> NodeGraph:
    """``x -> fc1 -> fc2`` from top to bottom."""
    return chain(130.0)


def frame(editor: EditorPage, name: str) -> Locator:
    return editor.root.locator(f'[data-frame="{name}"]')


def by_title(editor: EditorPage, name: str) -> tuple[float, float]:
    """A point on a frame's title that no edge runs through."""
    box = frame(editor, name).bounding_box()
    assert box is not None
    return box["x"] + 30, box["y"] + 12


def test_a_frame_is_put_around_the_selection_and_takes_it_along(editor: EditorPage, graph: NodeGraph) -> None:
    editor.node("fc1").click()
    editor.node("fc2").click(modifiers=["Shift"])
    editor.page.keyboard.press("Shift+G")
    expect(frame(editor, "frame1")).to_have_attribute("aria-label", "Frame Frame, around fc1, fc2")
    title = editor.root.get_by_role("textbox", name="Title")
    title.fill("Head")
    title.press("Enter")
    expect(frame(editor, "frame1")).to_contain_text("Head")
    editor.settle()
    before = graph["fc1"].position
    assert before is not None
    mouse = editor.page.mouse
    mouse.move(*by_title(editor, "frame1"))
    mouse.down()
    mouse.move(by_title(editor, "frame1")[0] + 60, by_title(editor, "frame1")[1] + 30, steps=4)
    mouse.up()
    expect(editor.root.locator(".pnne-said")).to_have_text("Move frame frame1")
    editor.settle()
    after = graph["fc1"].position
    assert after is not None
    assert after[0] - before[0] == pytest.approx(60, abs=3)
    assert graph["x"].position == (0.0, 0.0)
    assert graph.frames.held("frame1").nodes == ("fc1", "fc2")
    editor.button("Undo").click()
    editor.settle()
    assert graph["fc1"].position == before
    assert graph.undo_label == "Change title of frame frame1"


def test_a_frames_corner_resizes_it(editor: EditorPage, graph: NodeGraph) -> None:
    editor.node("fc1").click()
    editor.button("Frame").click()
    corner = frame(editor, "frame1").locator(".pnne-frame-corner")
    old = graph.frames["frame1"].box
    box = corner.bounding_box()
    assert box is not None
    editor.drag_by(corner, box["x"] + box["width"] / 2 + 75, box["y"] + box["height"] / 2 + 45)
    editor.settle()
    new = graph.frames["frame1"].box
    assert new[:2] == old[:2]
    assert [new[2] - old[2], new[3] - old[3]] == pytest.approx([75, 45], abs=3)
    assert graph.undo_label == "Resize frame frame1"
    editor.root.get_by_role("button", name="Fit to its nodes").click()
    editor.settle()
    assert graph.frames["frame1"].box == old


def test_a_note_is_written_and_coloured_without_a_mouse(editor: EditorPage, graph: NodeGraph) -> None:
    editor.root.get_by_role("region", name="Graph").focus()
    press = editor.page.keyboard.press
    press("Shift+G")
    expect(frame(editor, "frame1")).to_be_focused()
    press("ArrowRight")
    expect(editor.root.locator(".pnne-said")).to_have_text("Move frame frame1")
    editor.settle()
    left, top, width, height = graph.frames["frame1"].box
    press("Control+ArrowRight")
    press("Control+ArrowDown")
    editor.settle()
    assert graph.frames["frame1"].box == (left, top, width + 8, height + 8)
    press("Enter")
    expect(editor.root.get_by_role("textbox", name="Title")).to_be_focused()
    press("Tab")
    editor.page.keyboard.type("Why two layers?")
    press("Tab")
    press("ArrowLeft")
    expect(frame(editor, "frame1")).to_contain_text("Why two layers?")
    editor.settle()
    assert graph.frames["frame1"].text == "Why two layers?"
    assert graph.frames["frame1"].colour != "yellow"


def test_a_frame_is_found_and_removed_by_keyboard(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.frames.add("Encoder", around=["fc1", "fc2"])
    editor = open_editor(graph)
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("Control+f")
    editor.page.keyboard.type("encod")
    editor.page.keyboard.press("Enter")
    expect(frame(editor, "frame1")).to_be_focused()
    expect(editor.root.locator(".pnne-said")).to_have_text("Frame Encoder, around fc1, fc2")
    editor.page.keyboard.press("Delete")
    expect(frame(editor, "frame1")).to_have_count(0)
    expect(editor.node("fc1")).to_be_visible()
    editor.settle()
    assert not graph.frames


def test_a_frame_is_copied_with_what_stands_in_it(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.frames.add("Encoder", around=["fc1", "fc2"], colour="green")
    editor = open_editor(graph)
    editor.page.mouse.click(*by_title(editor, "frame1"))
    editor.page.keyboard.press("Control+d")
    expect(frame(editor, "frame2")).to_contain_text("Encoder")
    editor.settle()
    assert graph.frames["frame2"].colour == "green"
    assert ("fc3.output", "fc4.input") in graph.edges
    assert {"fc3", "fc4"} <= set(graph.frames.held("frame2").nodes)
    assert graph.undo_label == "Duplicate 2 nodes"


def test_what_stands_in_a_frame_is_collapsed_and_grouped_with_it(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.frames.add("Encoder", around=["fc1", "fc2"])
    editor = open_editor(graph)
    editor.page.mouse.click(*by_title(editor, "frame1"))
    editor.page.keyboard.press("h")
    expect(editor.root.locator(".pnne-collapsed")).to_have_count(2)
    editor.button("Group").click()
    expect(editor.node("subgraph1")).to_be_visible()
    expect(frame(editor, "frame1")).to_have_count(0)
    editor.settle()
    assert graph.frames["subgraph1.frame1"].title == "Encoder"
    assert graph["subgraph1.fc1"].collapsed


def test_a_double_click_on_a_title_goes_to_it_in_the_panel(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.frames.add("Encoder", around=["fc1", "fc2"])
    editor = open_editor(graph)
    editor.page.mouse.dblclick(*by_title(editor, "frame1"))
    expect(editor.root.get_by_role("textbox", name="Title")).to_be_focused()
    editor.page.keyboard.type("Decoder")
    editor.page.keyboard.press("Enter")
    expect(frame(editor, "frame1")).to_contain_text("Decoder")
    expect(editor.root.get_by_role("dialog")).to_have_count(0)


def test_edges_and_nodes_in_a_frame_are_reached_through_it(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.frames.add("All", around=["x", "fc1", "fc2"])
    editor = open_editor(graph)
    wire = editor.edge("fc1.output", "fc2.input").locator("path").first.bounding_box()
    assert wire is not None
    editor.page.mouse.click(wire["x"] + wire["width"] / 2, wire["y"] + wire["height"] / 2)
    expect(editor.root.locator(".react-flow__edge.selected")).to_have_count(1)
    editor.node("fc1").click()
    expect(editor.root.get_by_role("textbox", name="Name")).to_have_value("fc1")


def test_a_collapsed_node_shows_its_name_and_keeps_its_edges(editor: EditorPage, graph: NodeGraph) -> None:
    editor.node("fc1").click()
    editor.page.keyboard.press("h")
    expect(editor.node("fc1").locator(".pnne-card-type")).to_have_count(0)
    expect(editor.node("fc1")).to_have_attribute("aria-label", "fc1, Linear, auto→8, collapsed")
    expect(editor.edge("x.output", "fc1.input")).to_be_attached()
    size = editor.node("fc1").evaluate("node => [node.offsetWidth, node.offsetHeight]")
    assert size == [COLLAPSED_WIDTH, COLLAPSED_HEIGHT], "the page and Python know one size"
    editor.settle()
    assert graph["fc1"].collapsed
    assert graph.undo_label == "Collapse fc1"
    editor.node("fc1").hover()
    editor.button("Expand fc1").click()
    expect(editor.node("fc1").locator(".pnne-card-type")).to_have_text("Linear")
    editor.settle()
    assert not graph["fc1"].collapsed


def test_several_nodes_collapse_at_once(editor: EditorPage, graph: NodeGraph) -> None:
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("Control+a")
    editor.page.keyboard.press("h")
    expect(editor.root.locator(".pnne-collapsed")).to_have_count(3)
    editor.settle()
    assert graph.undo_label == "Collapse 3 nodes"
    editor.button("Undo").click()
    expect(editor.root.locator(".pnne-collapsed")).to_have_count(0)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_frames_in_both_themes(graph: NodeGraph, open_editor: OpenEditor, theme: str) -> None:
    graph.add("ReLU", name="relu")
    graph.connect("fc2", "relu")
    graph.collapse("relu")
    graph.arrange()
    graph.frames.add("Classifier", around=["fc1", "fc2", "relu"], colour="blue")
    graph.frames.add("Note", box=(230, 0, 210, 80), text="Eight features,\none per sensor", colour="yellow")
    graph.arrange()
    editor = open_editor(graph, theme=theme)
    expect(frame(editor, "frame1")).to_be_visible()
    editor.page.mouse.click(*by_title(editor, "frame1"))
    expect(editor.root.get_by_role("textbox", name="Title")).to_have_value("Classifier")
    editor.screenshot(f"editor-frames-{theme}")
