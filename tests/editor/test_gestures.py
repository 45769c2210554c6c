"""Gestures of the better node editors: search at the pointer, links into empty space, inserting, bridging, rerouting."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor, chain
from tests.editor.page import EditorPage


@pytest.fixture
def graph() -> NodeGraph:
    """``x -> fc1 -> fc2`` from top to bottom, with room between them."""
    return chain(200.0)


def edges(graph: NodeGraph) -> set[str]:
    return {f"{edge.source}->{edge.target}" for edge in graph.edges}


def quick_search(editor: EditorPage, text: str) -> None:
    """Type into the search over the canvas, and take the first result."""
    dialog = editor.root.get_by_role("dialog")
    dialog.get_by_role("searchbox").fill(text)
    expect(dialog.get_by_role("option").first).to_be_visible()
    editor.page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)


def test_a_double_click_adds_at_the_pointer(editor: EditorPage) -> None:
    box = editor.root.get_by_role("region", name="Graph").bounding_box()
    assert box is not None
    editor.page.mouse.dblclick(box["x"] + 120, box["y"] + 300)
    quick_search(editor, "gelu")
    node = editor.node("gelu1").bounding_box()
    assert node is not None
    assert abs(node["x"] + node["width"] / 2 - box["x"] - 120) < 2
    editor.settle()
    assert editor.graph.undo_label == "Add gelu1"


@pytest.mark.parametrize("key", ["Space", "Tab"])
def test_a_key_opens_the_search_where_the_pointer_is(editor: EditorPage, key: str) -> None:
    box = editor.root.get_by_role("region", name="Graph").bounding_box()
    assert box is not None
    editor.page.mouse.click(box["x"] + 100, box["y"] + 200)
    editor.page.keyboard.press(key)
    dialog = editor.root.get_by_role("dialog", name="Add a node")
    expect(dialog.get_by_role("searchbox")).to_be_focused()
    editor.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(editor.root.get_by_role("region", name="Graph")).to_be_focused()


def test_a_link_dropped_in_empty_space_adds_what_fits_and_connects_it(editor: EditorPage, graph: NodeGraph) -> None:
    box = editor.root.get_by_role("region", name="Graph").bounding_box()
    assert box is not None
    editor.drag_by(editor.port("fc2.output"), box["x"] + 130, box["y"] + 420)
    dialog = editor.root.get_by_role("dialog", name="Add a node for fc2.output")
    dialog.get_by_role("searchbox").fill("input")
    expect(dialog.get_by_role("option").and_(editor.root.locator('[data-type="Input"]'))).to_have_count(0)
    quick_search(editor, "relu")
    editor.settle()
    assert "fc2.output->relu1.input" in edges(graph)
    editor.button("Undo").click()
    expect(editor.node("relu1")).to_have_count(0)
    assert "relu1" not in graph.nodes


def test_a_node_dropped_on_an_edge_goes_into_it(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.add("ReLU", name="relu")
    graph.move("relu", 260, 100)
    editor = open_editor(graph)
    wire = editor.edge("fc1.output", "fc2.input").locator("path").first.bounding_box()
    assert wire is not None
    editor.drag_by(
        editor.node("relu").locator(".pnne-card-header"), wire["x"], wire["y"] + wire["height"] / 2, drop=False
    )
    expect(editor.root.locator(".pnne-drop")).to_have_attribute("data-edge", "fc1.output->fc2.input")
    editor.page.mouse.up()
    expect(editor.edge("relu.output", "fc2.input")).to_be_attached()
    editor.settle()
    assert edges(graph) == {"x.output->fc1.input", "fc1.output->relu.input", "relu.output->fc2.input"}
    assert graph.undo_label == "Insert relu"


def test_deleting_a_middle_node_offers_to_close_the_gap(editor: EditorPage, graph: NodeGraph) -> None:
    editor.node("fc1").click()
    editor.page.keyboard.press("Delete")
    expect(editor.toast).to_contain_text("Deleted fc1.")
    editor.toast.get_by_role("button", name="Connect x.output → fc2.input").click()
    expect(editor.edge("x.output", "fc2.input")).to_be_attached()
    expect(editor.toast).to_have_count(0)
    editor.settle()
    assert edges(graph) == {"x.output->fc2.input"}


def test_shift_delete_closes_the_gap_in_one_step(editor: EditorPage, graph: NodeGraph) -> None:
    editor.node("fc1").click()
    editor.page.keyboard.press("Shift+Delete")
    expect(editor.edge("x.output", "fc2.input")).to_be_attached()
    editor.settle()
    assert edges(graph) == {"x.output->fc2.input"}
    editor.button("Undo").click()
    expect(editor.node("fc1")).to_be_visible()
    assert len(graph.edges) == 2


def test_an_edges_end_is_dragged_to_another_port(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.add("ReLU", name="relu")
    graph.move("relu", 260, 400)
    editor = open_editor(graph)
    anchor = editor.root.locator(".react-flow__edge[data-id='fc1.output->fc2.input'] .react-flow__edgeupdater-target")
    box = anchor.bounding_box()
    target = editor.port("relu.input").bounding_box()
    assert box is not None
    assert target is not None
    mouse = editor.page.mouse
    mouse.move(box["x"] + box["width"] / 2, box["y"] + 3)
    mouse.down()
    mouse.move(target["x"] - 20, target["y"] - 10, steps=4)
    mouse.move(target["x"] + target["width"] / 2, target["y"] + target["height"] / 2, steps=3)
    mouse.up()
    expect(editor.edge("fc1.output", "relu.input")).to_be_attached()
    editor.settle()
    assert edges(graph) == {"x.output->fc1.input", "fc1.output->relu.input"}
    assert graph.undo_label == "Reconnect fc1.output → relu.input"


def test_a_node_is_found_by_name(editor: EditorPage) -> None:
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("Control+f")
    quick_search(editor, "c2")
    expect(editor.root.get_by_role("textbox", name="Name")).to_have_value("fc2")


def test_selected_nodes_are_aligned_and_spread(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.move("fc1", 40, 120)
    editor = open_editor(graph)
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("Control+a")
    editor.button("Align left").click()
    editor.settle()
    assert graph.undo_label == "Align 3 nodes"
    assert [node.position and node.position[0] for node in graph.nodes.values()] == [0, 0, 0]
    editor.button("Distribute vertically").click()
    editor.settle()
    assert graph.undo_label == "Distribute 3 nodes"
    assert graph["fc1"].position == (0, 200)


def test_properties_in_common_are_set_at_once(editor: EditorPage, graph: NodeGraph) -> None:
    editor.node("fc1").click()
    editor.node("fc2").click(modifiers=["Shift"])
    field = editor.field("fc1", "out_features")
    field.fill("32")
    field.press("Enter")
    editor.settle()
    assert [graph[name].properties["out_features"] for name in ("fc1", "fc2")] == [32, 32]
    assert graph.undo_label == "Set 2 nodes.out_features"


def test_a_property_is_made_an_input_and_wired(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.add("sum", name="total")
    graph.add("Input", name="axis", shape=())
    graph.move("total", 0, 560)
    graph.move("axis", 260, 400)
    editor = open_editor(graph, size=(1180, 960))
    editor.node("total").click()
    editor.button("Input port for dim").click()
    expect(editor.port("total.dim")).to_be_visible()
    editor.drag(editor.port("axis.output"), editor.port("total.dim"))
    expect(editor.edge("axis.output", "total.dim")).to_be_attached()
    editor.settle()
    assert "axis.output->total.dim" in edges(graph)


def test_what_is_copied_in_one_graph_is_pasted_in_another(editor: EditorPage, open_editor: OpenEditor) -> None:
    editor.node("fc1").click()
    editor.node("fc2").click(modifiers=["Shift"])
    editor.page.keyboard.press("Control+c")
    editor.page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('pnne-fragment')")
    other = NodeGraph("other")
    other.add("Input", name="x", shape=("N", 8))
    other.move("x", 0, 0)
    second = open_editor(other)
    second.node("x").click()
    second.page.keyboard.press("Control+v")
    expect(second.edge("linear1.output", "linear2.input")).to_be_attached()
    second.settle()
    assert [node.properties["out_features"] for node in list(other.nodes.values())[1:]] == [8, 8]
    assert other.undo_label == "Paste 2 nodes"
    assert list(editor.graph.nodes) == ["x", "fc1", "fc2"]


def test_a_dragged_node_snaps_to_the_grid(editor: EditorPage, graph: NodeGraph) -> None:
    editor.button("Snap to grid").click()
    box = editor.node("fc1").bounding_box()
    assert box is not None
    editor.drag_by(editor.node("fc1"), box["x"] + box["width"] / 2 + 101, box["y"] + box["height"] / 2 + 7)
    editor.settle()
    position = graph["fc1"].position
    assert position is not None
    assert position != (0, 200)
    assert [value % 12 for value in position] == [0, 0]


def test_the_view_zooms_to_the_selection(open_editor: OpenEditor) -> None:
    graph = NodeGraph("wide")
    for place in range(12):
        graph.move(graph.add("ReLU", name=f"r{place}"), 400 * place, 0)
    editor = open_editor(graph)
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("Control+f")
    quick_search(editor, "r11")
    editor.page.keyboard.press("Shift+f")
    canvas = editor.root.get_by_role("region", name="Graph").bounding_box()
    assert canvas is not None
    middle = canvas["x"] + canvas["width"] / 2
    editor.page.wait_for_function(
        """middle => {
          const box = document.querySelector('[data-node="r11"]')?.getBoundingClientRect();
          return box && Math.abs(box.left + box.width / 2 - middle) < 2 && Math.abs(box.width - 176) < 1;
        }""",
        arg=middle,
    )
