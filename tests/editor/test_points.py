"""Points that edges lead through, and what a drag, a zoom and a block's card may do besides."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor, chain
from tests.editor.page import EditorPage


@pytest.fixture
def graph() -> NodeGraph:
    return chain(160.0)


def middle_of(editor: EditorPage, source: str, target: str) -> tuple[float, float]:
    box = editor.edge(source, target).locator("path").first.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_an_edge_leads_through_a_point_by_key_and_by_pointer(graph: NodeGraph, editor: EditorPage) -> None:
    editor.page.mouse.click(*middle_of(editor, "x.output", "fc1.input"))
    editor.page.keyboard.press("w")
    editor.settle()
    assert [graph[edge.source.partition(".")[0]].type for edge in graph.edges if edge.target == "fc1.input"] == [
        "Reroute"
    ]
    assert graph.undo_label == "Reroute x.output → fc1.input"
    point = next(name for name, node in graph.nodes.items() if node.type == "Reroute")
    before = graph[point].position
    box = editor.node(point).bounding_box()
    assert box is not None
    editor.drag_by(editor.node(point), box["x"] + 90, box["y"] + box["height"] / 2)
    editor.settle()
    assert graph[point].position != before, "it is moved as any node is"
    editor.page.keyboard.press("Delete")
    editor.settle()
    assert {(edge.source, edge.target) for edge in graph.edges} == {
        ("x.output", "fc1.input"),
        ("fc1.output", "fc2.input"),
    }, "the edge stays"
    editor.page.keyboard.down("Alt")
    editor.page.mouse.click(*middle_of(editor, "fc1.output", "fc2.input"))
    editor.page.keyboard.up("Alt")
    editor.settle()
    assert graph.undo_label == "Reroute fc1.output → fc2.input"
    graph.undo()
    assert all(node.type != "Reroute" for node in graph.nodes.values()), "one step"


def test_a_drag_selects_if_that_is_wanted(editor: EditorPage) -> None:
    canvas = editor.root.locator(".react-flow").bounding_box()
    assert canvas is not None
    region = editor.root.get_by_role("region", name="Graph")
    region.press("s")
    mouse = editor.page.mouse
    mouse.move(canvas["x"] + 30, canvas["y"] + 10)
    mouse.down()
    mouse.move(canvas["x"] + canvas["width"] - 60, canvas["y"] + canvas["height"] - 10, steps=6)
    mouse.up()
    expect(editor.root.locator(".react-flow__node.selected")).to_have_count(3)
    region.press("Escape")
    region.press("Shift+F10")
    expect(editor.root.get_by_role("menuitemcheckbox", name="Drag over the canvas to select")).to_have_attribute(
        "aria-checked", "true"
    )


def test_zooming_into_a_block_opens_it_if_that_is_wanted(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.group(["fc1"], name="block")
    editor = open_editor(graph)
    editor.node("x").click()
    editor.page.keyboard.press("Escape")
    box = editor.node("block").bounding_box()
    assert box is not None
    editor.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    for _ in range(3):
        editor.page.mouse.wheel(0, -300)
    expect(editor.node("block.fc1")).to_have_count(0)
    editor.page.keyboard.press("f")
    editor.page.keyboard.press("Shift+Z")
    editor.page.wait_for_timeout(400)  # the glide
    for _ in range(5):
        editor.page.mouse.wheel(0, -300)
    expect(editor.node("block.fc1")).to_have_count(1)
    for _ in range(12):
        editor.page.mouse.wheel(0, 300)
    expect(editor.node("block.fc1")).to_have_count(0)


def test_a_block_shows_a_property_of_a_node_inside(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.group(["fc1"], name="block")
    graph.add("Subgraph", name="again", definition="block")
    graph.move("again", 260, 160)
    editor = open_editor(graph)
    editor.node("block").dblclick()
    editor.node("block.fc1").click()
    editor.root.get_by_role("button", name="Show out_features on the block").click()
    editor.settle()
    assert graph["block.fc1"].properties["promoted"] == ("out_features",)
    assert graph.undo_label == "Show fc1.out_features on the block"
    editor.root.get_by_role("region", name="Graph").press("Escape")
    editor.page.keyboard.press("Escape")
    expect(editor.node("block")).to_contain_text("fc1 out 8")
    expect(editor.node("again")).to_contain_text("fc1 out 8")
    editor.node("block").click()
    field = editor.field("block.fc1", "out_features")
    field.fill("16")
    field.press("Enter")
    editor.settle()
    assert graph["again.fc1"].properties["out_features"] == 16, "it is the same node in both"
    expect(editor.node("again")).to_contain_text("fc1 out 16")


def test_equal_blocks_in_a_row_are_one_card_when_they_are_first_seen(open_editor: OpenEditor) -> None:
    graph = NodeGraph("tower")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="fc", out_features=8)
    graph.connect("x", "fc")
    graph.group(["fc"], name="block")
    last = "block"
    for number in range(11):
        graph.add("Subgraph", name=f"b{number}", definition="block")
        graph.connect(last, f"b{number}")
        last = f"b{number}"
    graph.arrange()
    editor = open_editor(graph)
    expect(editor.node("block")).to_contain_text("×12")
    expect(editor.node("b3")).to_have_count(0)
    editor.button("Fold repeats").click()
    expect(editor.node("b3")).to_be_visible()
    with_more = graph.add("ReLU", name="act")
    graph.move(with_more, 300, 0)
    editor.deliver()
    expect(editor.node("act")).to_be_visible()
    expect(editor.node("b3")).to_be_visible()
