"""Without a mouse, and for assistive tools: axe-core's rules, the keyboard's way through the graph, announcements."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from pnne_nb.protocol.messages import LayerFault, LayerState, Training
from tests import axe
from tests.editor.conftest import OpenEditor, chain
from tests.editor.page import EditorPage


@pytest.fixture
def graph() -> NodeGraph:
    """``x -> fc1 -> fc2``, a loose node, and so a problem."""
    graph = chain(130.0)
    graph.add("ReLU", name="loose", x=0, y=390)
    return graph


def violations(editor: EditorPage) -> str:
    """What axe-core finds serious in the editor."""
    return axe.violations(editor.page, ".pnne-editor")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(graph: NodeGraph, open_editor: OpenEditor, theme: str) -> None:
    editor = open_editor(graph, theme=theme)
    assert violations(editor) == ""
    editor.node("fc1").click()
    editor.page.keyboard.press("v")
    expect(editor.node("fc1").locator("[data-property]").first).to_be_focused()
    assert violations(editor) == ""
    editor.page.keyboard.press("Escape")
    editor.root.get_by_role("button", name="Not finished yet").click()
    editor.root.get_by_role("searchbox").fill("conv")
    assert violations(editor) == ""
    editor.node("fc2").click(modifiers=["Shift"])
    editor.button("Code").click()
    expect(editor.root.get_by_role("region", name="Source")).to_contain_text("can be shown")
    assert violations(editor) == ""
    editor.button("Close").click()
    editor.page.keyboard.press("Escape")
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("Space")
    expect(editor.root.get_by_role("dialog")).to_be_visible()
    editor.screenshot(f"editor-search-{theme}")
    assert violations(editor) == ""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_frames_and_blocks(graph: NodeGraph, open_editor: OpenEditor, theme: str) -> None:
    graph.frames.add("Layers", around=["fc1", "fc2"], text="Two of them", colour="yellow")
    graph.collapse("fc2")
    graph.group(["loose"], name="block")
    graph.add("Subgraph", name="again", definition="block")
    graph.move("block", 260, 0)
    graph.move("again", 260, 130)
    editor = open_editor(graph, theme=theme)
    assert violations(editor) == ""
    editor.node("block").click()
    editor.page.keyboard.press("p")
    expect(editor.root.get_by_role("dialog", name="Inside of block")).to_be_visible()
    assert violations(editor) == ""
    editor.node("block").dblclick()
    expect(editor.root.get_by_role("note")).to_be_visible()
    assert violations(editor) == ""
    editor.page.keyboard.press("Escape")
    expect(editor.node("block")).to_be_visible()
    editor.page.keyboard.press("Control+f")
    editor.page.keyboard.type("layers")
    editor.page.keyboard.press("Enter")
    expect(editor.root.get_by_role("textbox", name="Title")).to_have_value("Layers")
    assert violations(editor) == ""


def test_a_graph_is_read_and_edited_by_keyboard_alone(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    said = editor.root.locator(".pnne-said")
    editor.root.get_by_role("region", name="Graph").focus()
    press = editor.page.keyboard.press
    press("ArrowDown")
    expect(editor.node("x")).to_be_focused()
    expect(said).to_have_text("x, Input, N×8, 1 of 4")
    press("Alt+ArrowDown")
    expect(editor.node("fc1")).to_be_focused()
    assert editor.root.locator("[data-node][tabindex='0']").count() == 1
    press("Alt+ArrowDown")
    expect(editor.node("fc2")).to_be_focused()
    press("c")
    dialog = editor.root.get_by_role("dialog", name="Connect to")
    expect(dialog.get_by_role("option", name="loose.input")).to_be_visible()
    editor.page.keyboard.type("loose.in")
    press("Enter")
    expect(editor.edge("fc2.output", "loose.input")).to_be_attached()
    expect(said).to_have_text("Connect fc2.output → loose.input")
    press("Enter")
    expect(editor.root.get_by_role("textbox", name="Name")).to_be_focused()


def test_tab_leaves_the_canvas_for_who_came_by_keyboard(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.button("Full screen").focus()
    region = editor.root.get_by_role("region", name="Graph")
    region.focus()
    editor.page.keyboard.press("Tab")
    expect(editor.root.get_by_role("dialog")).to_have_count(0)
    expect(region).not_to_be_focused()


def test_an_edge_is_reached_reconnected_and_deleted_by_keyboard(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    said = editor.root.locator(".pnne-said")
    press = editor.page.keyboard.press
    editor.root.get_by_role("region", name="Graph").focus()
    press("ArrowDown")
    press("Alt+ArrowDown")
    expect(editor.node("fc1")).to_be_focused()
    press("e")
    listed = editor.root.get_by_role("dialog", name="Edges").get_by_role("option")
    expect(listed).to_have_text(["← x.outputinput", "→ fc2.inputoutput"])
    press("ArrowDown")
    press("Enter")
    expect(editor.root.locator(".react-flow__edge.selected")).to_have_count(1)
    expect(said).to_contain_text("Edge fc1.output → fc2.input.")
    press("r")
    ends = editor.root.get_by_role("dialog", name="Reconnect to")
    expect(ends.get_by_role("option", name="→ loose.input")).to_be_visible()
    editor.page.keyboard.type("loose")
    press("Enter")
    expect(editor.edge("fc1.output", "loose.input")).to_be_attached()
    expect(editor.edge("fc1.output", "fc2.input")).to_have_count(0)
    expect(said).to_have_text("Reconnect fc1.output → loose.input")
    editor.settle()
    assert graph.undo_label == "Reconnect fc1.output → loose.input"
    press("Control+f")
    editor.page.keyboard.type("loose")
    press("Enter")
    press("e")
    press("Enter")
    press("Delete")
    expect(editor.edge("fc1.output", "loose.input")).to_have_count(0)
    expect(said).to_have_text("Disconnect")


def test_a_node_is_put_into_an_edge_by_keyboard(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    press = editor.page.keyboard.press
    editor.root.get_by_role("region", name="Graph").focus()
    press("ArrowDown")
    expect(editor.node("x")).to_be_focused()
    press("e")
    press("Enter")
    press("Space")
    dialog = editor.root.get_by_role("dialog", name="Add a node")
    expect(dialog.get_by_role("searchbox")).to_be_focused()
    editor.page.keyboard.type("gelu")
    press("Enter")
    expect(editor.edge("gelu1.output", "fc1.input")).to_be_attached()
    editor.settle()
    assert ("x.output", "gelu1.input") in graph.edges


def test_what_fits_a_port_is_added_by_keyboard(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    press = editor.page.keyboard.press
    editor.root.get_by_role("region", name="Graph").focus()
    press("Control+f")
    editor.page.keyboard.type("fc2")
    press("Enter")
    press("c")
    editor.page.keyboard.type("a new")
    press("Enter")
    expect(editor.root.get_by_role("dialog", name="Add a node for fc2.output")).to_be_visible()
    editor.page.keyboard.type("softmax")
    press("Enter")
    expect(editor.edge("fc2.output", "softmax1.input")).to_be_attached()


def test_a_selection_grows_by_keyboard_and_is_grouped(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    press = editor.page.keyboard.press
    editor.root.get_by_role("region", name="Graph").focus()
    press("ArrowDown")
    press("Alt+ArrowDown")
    press("Alt+Shift+ArrowDown")
    expect(editor.root.locator(".pnne-said")).to_have_text("fc2 added, 2 selected")
    expect(editor.root.locator(".react-flow__node.selected")).to_have_count(2)
    press("Control+g")
    expect(editor.node("subgraph1")).to_be_visible()
    expect(editor.root.locator(".pnne-said")).to_have_text("Group subgraph1")
    press("Control+z")
    expect(editor.root.locator(".pnne-said")).to_have_text("Undo: Group subgraph1")
    press("Control+Shift+z")
    editor.settle()
    assert list(graph.graphs["subgraph1"].nodes) == ["input", "fc1", "fc2", "output"]


def test_the_view_is_zoomed_and_moved_by_keyboard(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    editor.page.emulate_media(reduced_motion="reduce")
    try:
        editor.root.get_by_role("region", name="Graph").focus()
        zoom = "() => new DOMMatrix(document.querySelector('.react-flow__viewport').style.transform).a"
        before = editor.page.evaluate(zoom)
        editor.page.keyboard.press("-")
        editor.page.wait_for_function(f"before => ({zoom})() < before", arg=before)
        assert editor.page.evaluate(zoom) == pytest.approx(before / 1.25)
        editor.page.keyboard.press("+")
        editor.page.wait_for_function(f"before => Math.abs(({zoom})() - before) < 1e-6", arg=before)
        editor.page.keyboard.press("PageDown")
        expect(editor.node("x")).not_to_be_in_viewport()
        editor.page.keyboard.press("PageUp")
        expect(editor.node("x")).to_be_in_viewport()
    finally:
        editor.page.emulate_media(reduced_motion="no-preference")


def test_less_motion_is_none(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    moving = """root => [...root.querySelectorAll("*")].filter((element) => {
      const { transitionDuration, animationName } = getComputedStyle(element);
      return animationName !== "none" || transitionDuration.split(", ").some((time) => parseFloat(time) > 0);
    }).map((element) => element.className)"""
    assert editor.root.evaluate(moving) != [], "otherwise the test tests nothing"
    editor.page.emulate_media(reduced_motion="reduce")
    try:
        assert editor.root.evaluate(moving) == []
        place = "root => root.querySelector('.react-flow__viewport').style.transform"
        before = editor.root.evaluate(place)
        editor.page.mouse.move(600, 300)
        editor.page.keyboard.down("Control")
        editor.page.mouse.wheel(0, 400)
        editor.page.keyboard.up("Control")
        editor.page.wait_for_function(
            f"before => ({place})(document.querySelector('.pnne-editor')) !== before", arg=before
        )
        # A view that glides is on its way after two frames, and starts again from there when asked again.
        arrived = f"""async root => {{
          root.querySelector("[aria-label='Fit view']").click();
          for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
          return ({place})(root);
        }}"""
        assert editor.root.evaluate(arrived) == editor.root.evaluate(arrived)
    finally:
        editor.page.emulate_media(reduced_motion="no-preference")


def test_what_the_mouse_selects_is_said(graph: NodeGraph, open_editor: OpenEditor) -> None:
    editor = open_editor(graph)
    said = editor.root.locator(".pnne-said")
    editor.node("fc1").click()
    expect(said).to_have_text("fc1, Linear, auto→8 selected")
    editor.node("x").click(modifiers=["Shift"])
    expect(said).to_have_text("2 nodes selected")
    box = editor.edge("fc1.output", "fc2.input").locator("path").first.bounding_box()
    assert box is not None
    editor.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(said).to_have_text("fc1.output->fc2.input selected")
    editor.root.locator(".react-flow__pane").click(position={"x": 30, "y": 300})
    expect(said).to_have_text("Nothing selected")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_what_comes_and_goes(open_editor: OpenEditor, theme: str) -> None:
    graph = NodeGraph("row")
    graph.add("Input", name="x", shape=("N", 8))
    for place, before in enumerate(["x", "r0", "r1"]):
        graph.add("ReLU", name=f"r{place}")
        graph.connect(before, f"r{place}")
    graph.add("Output", name="y")
    graph.connect("r2", "y")
    graph.arrange()
    editor = open_editor(graph, theme=theme)
    # A folded row with its buttons, a training with an faulty layer, and a notice with an offer.
    editor.button("Fold repeats").click()
    fault = LayerFault("dead", "All of its outputs are 0.")
    editor.kernel.show(Training(3, 40, {"r0": LayerState(mean=0.1, std=0.5, zeros=1.0, flow=0.2, fault=fault)}))
    editor.deliver()
    editor.node("r0").hover()
    expect(editor.button("Unfold r0 to r2")).to_be_visible()
    expect(editor.root.get_by_role("region", name="Live training")).to_be_visible()
    assert violations(editor) == ""
    editor.node("r0").click()
    editor.page.keyboard.press("Delete")
    expect(editor.toast).to_be_visible()
    editor.page.set_viewport_size({"width": 500, "height": 760})
    editor.button("Properties").click()
    assert violations(editor) == ""
