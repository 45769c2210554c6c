"""Editing with the mouse: add, connect, refuse, move, delete, undo."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from pnne_nb.errors import Diagnostic
from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage, sent


@pytest.fixture
def graph() -> NodeGraph:
    """An Input and a convolution side by side, not connected."""
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 1, 28, 28))
    graph.add("Conv2d", name="conv1", out_channels=6, kernel_size=5)
    graph.move("x", 0, 0)
    graph.move("conv1", 0, 150)
    return graph


def test_a_click_with_shift_in_the_palette_adds_a_node_and_no_edge(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.node("conv1").click()
    editor.add("ReLU", loose=True)
    expect(editor.node("relu1")).to_be_visible()
    editor.settle()
    assert graph.edges == ()
    assert graph.undo_label == "Add relu1"


def test_a_click_in_the_palette_adds_a_node_fed_by_the_selected_one(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.node("conv1").click()
    editor.add("ReLU")
    expect(editor.node("relu1")).to_be_visible()
    editor.settle()
    assert [str(edge.source) for edge in graph.edges] == ["conv1.output"]
    assert graph.undo_label == "Add relu1"
    editor.add("MaxPool2d")
    expect(editor.edge("relu1.output", "max_pool2d1.input")).to_be_attached()
    assert len(sent(editor.kernel, "edit")) == 2


def test_functions_stand_behind_a_fold_and_search_finds_them(editor: EditorPage) -> None:
    group = editor.root.locator(".pnne-palette-list > div", has=editor.page.get_by_role("button", name="Convolution"))
    expect(group.locator("[data-type=Conv2d]")).to_be_visible()
    expect(group.locator("[data-type=conv2d]")).to_have_count(0)
    fold = group.locator(".pnne-fold")
    expect(fold).to_have_text(re.compile(r"^\d+ functions$"))
    fold.click()
    expect(group.locator("[data-type=conv2d]")).to_be_visible()
    expect(fold).to_have_text("Hide functions")
    fold.click()
    expect(group.locator("[data-type=conv2d]")).to_have_count(0)
    # A group of functions alone has no layers to stand before them.
    arithmetic = editor.root.get_by_role("button", name="Arithmetic")
    if arithmetic.get_attribute("aria-expanded") == "false":
        arithmetic.click()
    expect(editor.root.locator("[data-type=add]")).to_be_visible()
    editor.search("conv2d")
    expect(editor.root.locator("[role=option][data-type=conv2d]")).to_be_visible()


def test_a_drag_from_the_palette_adds_a_node_at_the_pointer(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    option = editor.search("Dropout").first
    canvas = editor.root.get_by_role("region", name="Graph").bounding_box()
    assert canvas is not None
    editor.drag_by(option, canvas["x"] + 120, canvas["y"] + 380)
    node = editor.node("dropout1")
    expect(node).to_be_visible()
    box = node.bounding_box()
    assert box is not None
    assert abs(box["x"] + box["width"] / 2 - canvas["x"] - 120) < 2
    assert abs(box["y"] + box["height"] / 2 - canvas["y"] - 380) < 2
    assert list(graph.nodes) == ["x", "conv1", "dropout1"]


def test_a_drag_from_port_to_port_connects(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.drag(editor.port("x.output"), editor.port("conv1.input"))
    edge = editor.edge("x.output", "conv1.input")
    expect(edge).to_be_attached()
    expect(edge).to_contain_text("N×6×24×24")
    editor.settle()
    assert [(edge.source, edge.target) for edge in graph.edges] == [("x.output", "conv1.input")]


def test_a_connection_can_be_drawn_backwards_and_dropped_on_a_node(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.drag(editor.port("conv1.input"), editor.node("x"))
    expect(editor.edge("x.output", "conv1.input")).to_be_attached()
    editor.settle()
    assert len(graph.edges) == 1


@pytest.mark.parametrize(
    ("prepare", "start", "end", "reason"),
    [
        (lambda graph: graph.connect("x", "conv1"), "x.output", "conv1.input", "They are connected already."),
        (lambda graph: graph.connect("conv1", "relu"), "relu.output", "conv1.input", "would close a loop"),
        (
            lambda graph: graph.add("SGD", name="sgd"),
            "x.output",
            "sgd.parameters_0",
            "gives a value, but .* takes parameters",
        ),
    ],
)
def test_a_connection_that_does_not_fit_is_refused_with_the_reason(
    graph: NodeGraph, open_editor: OpenEditor, prepare: object, start: str, end: str, reason: str
) -> None:
    graph.add("ReLU", name="relu")
    assert callable(prepare)
    prepare(graph)
    for place, name in enumerate(graph.nodes):
        graph.move(name, 220.0 * (place % 2), 130.0 * place)
    editor = open_editor(graph)
    version = graph.version
    target = editor.root.locator(f'[data-port="{end}"]')
    editor.drag(editor.port(start), target, drop=False)
    expect(target).to_have_class(re.compile("pnne-refuses"))
    expect(editor.root.locator(".pnne-refusal")).to_have_text(re.compile(reason))
    editor.page.mouse.up()
    expect(editor.toast).to_contain_text(re.compile(reason))
    assert graph.version == version
    assert sent(editor.kernel, "edit") == []


def test_a_link_dropped_on_a_fed_port_replaces_what_fed_it(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.connect("x", "conv1")
    graph.add("ReLU", name="relu")
    graph.move("relu", 260.0, 0.0)
    editor = open_editor(graph)
    editor.drag(editor.port("relu.output"), editor.port("conv1.input"))
    expect(editor.edge("relu.output", "conv1.input")).to_be_attached()
    editor.settle()
    assert [(edge.source, edge.target) for edge in graph.edges] == [("relu.output", "conv1.input")]
    graph.undo()
    assert [edge.source for edge in graph.edges] == ["x.output"]


def test_an_empty_graph_has_no_problems_yet(open_editor: OpenEditor) -> None:
    editor = open_editor(NodeGraph("net"))
    expect(editor.button("No problems")).to_be_visible()
    editor.add("ReLU")
    expect(editor.root.locator(".pnne-problems-toggle")).to_have_text("Not finished yet")
    expect(editor.button("No problems")).to_have_count(0)
    editor.root.locator(".pnne-problems-toggle").click()
    expect(editor.root.locator(".pnne-problem-list .pnne-severity-info").first).to_be_visible()
    expect(editor.root.locator(".pnne-problem-list .pnne-severity-error")).to_have_count(0)


def test_a_new_node_is_grey_and_a_wrong_one_is_red_whose_message_covers_no_next_node(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.chain(("Input", {"name": "x", "shape": ("N", 4)}), ("Linear", {"name": "a", "out_features": 4}), "ReLU")
    graph.arrange()
    editor = open_editor(graph)
    editor.add("Conv2d", loose=True)
    expect(editor.button("Not finished yet")).not_to_have_class(re.compile("severity"))
    expect(editor.root.locator(".pnne-diagnostic").first).to_have_class(re.compile("severity-info"))
    editor.kernel.extra = [Diagnostic("odd", "Its size is odd.", "a")]
    editor.graph.set("a", out_features=5)
    editor.deliver()
    expect(editor.button("1 problem")).to_have_class(re.compile("severity-error"))
    editor.rest()  # the new node was brought into view
    editor.node("a").click()
    message = editor.node("a").locator(".pnne-card-message").bounding_box()
    after = editor.node("relu1").bounding_box()
    assert message is not None
    assert after is not None
    assert message["x"] >= after["x"] + after["width"] or message["y"] + message["height"] <= after["y"]


def test_a_copy_stands_clear_beside_the_original(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.chain(("Input", {"name": "x", "shape": ("N", 4)}), ("Linear", {"name": "a", "out_features": 4}), "ReLU")
    graph.arrange()
    editor = open_editor(graph)
    editor.node("a").click()
    for _ in range(2):
        editor.page.keyboard.press("Control+d")
    expect(editor.node("a3")).to_be_visible()
    editor.settle()
    # All at one moment: the page may still be gliding there.
    boxes = editor.root.locator("[data-node]").evaluate_all(
        "nodes => nodes.map((node) => node.getBoundingClientRect().toJSON())"
    )
    assert len(boxes) == 5
    for box in boxes:
        assert not any(
            other is not box
            and abs(other["x"] - box["x"]) < box["width"]
            and abs(other["y"] - box["y"]) < min(box["height"], other["height"])
            for other in boxes
        )


def test_fields_calculate_and_shapes_take_open_sizes(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.chain(("Input", {"name": "x", "shape": ("N", 4)}), ("Linear", {"name": "a", "out_features": 4}))
    graph.arrange()
    editor = open_editor(graph)
    for node, name, text in (("x", "shape", "None, 2*8"), ("a", "out_features", "2*64")):
        editor.node(node).click()
        editor.field(node, name).fill(text)
        editor.page.keyboard.press("Enter")
    editor.field("a", "out_features").fill("64//0")
    expect(editor.root.get_by_text("It must be a whole number").first).to_be_visible()
    editor.page.keyboard.press("Escape")
    editor.settle()
    assert editor.graph["x"].properties["shape"] == ("N", 16)
    assert editor.graph["a"].properties["out_features"] == 128


def test_a_named_size_is_added_used_changed_and_removed(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.chain(("Input", {"name": "x", "shape": ("N", 4)}), ("Linear", {"name": "a", "out_features": 4}))
    graph.arrange()
    editor = open_editor(graph)
    sizes = editor.root.get_by_role("group", name="Sizes")
    sizes.get_by_label("Name of a new size").fill("forward")
    expect(sizes.get_by_text("forward means something in Python")).to_be_visible()
    sizes.get_by_label("Name of a new size").fill("hidden")
    sizes.get_by_label("Its number").fill("64")
    sizes.get_by_role("button", name="Add the size").click()
    expect(sizes.get_by_label("hidden", exact=True)).to_have_value("64")
    editor.node("a").click()
    editor.field("a", "out_features").fill("4*hiden")
    expect(editor.root.get_by_text("The graph has no size hiden").first).to_be_visible()
    editor.field("a", "out_features").fill("4 * hidden")
    editor.page.keyboard.press("Enter")
    editor.settle()
    expect(editor.field("a", "out_features")).to_have_value("4*hidden")
    expect(editor.node("a")).to_contain_text("4*hidden")
    editor.page.keyboard.press("Escape")
    editor.root.locator(".react-flow__pane").click(position={"x": 5, "y": 5})
    sizes.get_by_label("hidden", exact=True).fill("32")
    editor.page.keyboard.press("Enter")
    editor.settle()
    assert editor.graph["a"].properties["out_features"] == 128
    assert editor.graph.undo_label == "Set the size hidden to 32"
    sizes.get_by_role("button", name="Remove the size hidden").click()
    expect(editor.node("a")).to_contain_text("128")
    editor.settle()
    assert editor.graph["a"].properties["out_features"] == 128
    assert not editor.graph.sizes
    assert editor.graph.undo().label == "Undo: Remove the size hidden"
    assert dict(editor.graph.sizes) == {"hidden": 32}


def test_a_notice_is_shown_once_and_covers_no_node(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.connect("x", "conv1")
    editor = open_editor(graph)
    for _ in range(2):
        editor.drag(editor.port("x.output"), editor.port("conv1.input"))
    expect(editor.toast).to_have_text(re.compile("They are connected already."))
    expect(editor.root.locator(".pnne-toast")).to_have_count(1)
    notice, graph_box = editor.toast.bounding_box(), editor.root.locator(".react-flow").bounding_box()
    assert notice is not None
    assert graph_box is not None
    assert notice["y"] >= graph_box["y"] + graph_box["height"], "below the graph"
    editor.root.get_by_role("button", name="Dismiss").click()
    expect(editor.root.locator(".pnne-toast")).to_have_count(0)


def test_a_drag_moves_a_node_with_one_message(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    box = editor.node("conv1").bounding_box()
    assert box is not None
    editor.drag_by(editor.node("conv1"), box["x"] + box["width"] / 2 + 100, box["y"] + box["height"] / 2 + 60)
    editor.settle()
    assert graph["conv1"].position == (100.0, 210.0)
    assert len(sent(editor.kernel, "edit")) == 1
    assert graph.undo_label == "Move conv1"


def test_selected_nodes_are_deleted_with_their_edges(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.connect("x", "conv1")
    editor = open_editor(graph)
    expect(editor.button("Delete")).to_be_disabled()
    editor.node("conv1").click()
    editor.page.keyboard.press("Delete")
    expect(editor.node("conv1")).to_have_count(0)
    expect(editor.root.locator("[data-edge]")).to_have_count(0)
    editor.settle()
    assert list(graph.nodes) == ["x"]
    editor.button("Undo").click()
    expect(editor.edge("x.output", "conv1.input")).to_be_attached()
    assert list(graph.nodes) == ["x", "conv1"]


def test_an_edge_is_selected_and_deleted(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.connect("x", "conv1")
    editor = open_editor(graph)
    editor.edge("x.output", "conv1.input").click()
    editor.button("Delete").click()
    expect(editor.root.locator("[data-edge]")).to_have_count(0)
    assert graph.edges == ()
    assert graph.undo_label == "Disconnect"


def test_undo_and_redo_by_button_follow_pythons_history(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    expect(editor.button("Redo")).to_be_disabled()
    editor.button("Undo").click()
    expect(editor.button("Redo")).to_be_enabled()
    assert graph["conv1"].position is None
    editor.button("Redo").click()
    expect(editor.button("Redo")).to_be_disabled()
    assert graph["conv1"].position == (0.0, 150.0)


def test_shift_click_and_shift_drag_select_many(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.node("x").click()
    editor.node("conv1").click(modifiers=["Shift"])
    expect(editor.root.locator(".react-flow__node.selected")).to_have_count(2)
    editor.page.keyboard.press("Escape")
    expect(editor.root.locator(".react-flow__node.selected")).to_have_count(0)
    first, last = editor.node("x").bounding_box(), editor.node("conv1").bounding_box()
    assert first is not None
    assert last is not None
    editor.page.keyboard.down("Shift")
    editor.page.mouse.move(first["x"] - 30, first["y"] - 20)
    editor.page.mouse.down()
    editor.page.mouse.move(last["x"] + last["width"] + 30, last["y"] + last["height"] + 20, steps=4)
    editor.page.mouse.up()
    editor.page.keyboard.up("Shift")
    expect(editor.root.locator(".react-flow__node.selected")).to_have_count(2)
    assert sorted(editor.page.evaluate("() => window.model.get('selection')")) == ["conv1", "x"]


def test_a_selection_is_grouped_entered_and_left(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.connect("x", "conv1")
    editor = open_editor(graph)
    editor.node("conv1").click()
    editor.button("Group").click()
    block = editor.root.locator('[data-type="Subgraph"]')
    expect(block).to_be_visible()
    expect(editor.root.locator(".react-flow__node.selected")).to_contain_text("subgraph1")
    block.dblclick()
    inner = editor.root.locator('.pnne-card[data-type="Conv2d"]')
    expect(inner).to_have_attribute("data-node", "subgraph1.conv1")
    editor.root.get_by_role("navigation").get_by_role("button", name="net").click()
    expect(block).to_be_visible()


def test_nodes_without_a_place_are_arranged_once_when_the_view_opens(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 4))
    graph.add("Linear", name="fc", out_features=2)
    graph.connect("x", "fc")
    editor = open_editor(graph)
    expect(editor.root).to_have_attribute("data-version", "4")
    assert graph["fc"].position is not None
    assert len(sent(editor.kernel, "arrange")) == 1
