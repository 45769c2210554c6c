"""The gestures of the better node editors in a real JupyterLab: what the page shows, and what the kernel holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.workbench import Workbench

PAIR = "chain('Linear', 'Linear', out_features=8)"
"""``x -> linear1 -> linear2`` from top to bottom, with room between them."""

ZOOM = "() => new DOMMatrix(document.querySelector('.react-flow__viewport').style.transform).a"


# Adding


def test_a_link_dropped_in_empty_space_adds_what_fits_and_connects_it(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    editor.drag(editor.port("linear2.output"), *editor.on_canvas(130, 500))
    search = editor.root.get_by_role("dialog", name="Add a node for linear2.output")
    search.get_by_role("searchbox").fill("input")
    expect(search.get_by_role("option").and_(editor.root.locator("[data-type=Input]"))).to_have_count(0)
    editor.quick("relu")
    workbench.done("Add relu1", editor)
    assert "linear2.output->relu1.input" in workbench.edges
    # Backwards, from an input, what gives a tensor is offered.
    workbench.value("graph.disconnect('x', 'linear1')")
    workbench.in_step(editor)
    editor.drag(editor.port("linear1.input"), *editor.on_canvas(130, 120))
    editor.quick("input")
    workbench.done("Add input1", editor)
    assert "input1.output->linear1.input" in workbench.edges


def test_a_node_dropped_on_an_edge_goes_into_it(workbench: Workbench) -> None:
    editor = workbench.open(f"placed({PAIR}, 'ReLU', 'relu', 280.0, 270.0)")
    middle = editor.wire_middle("linear1.output", "linear2.input")
    editor.drag(editor.node("relu").locator(".pnne-card-header"), *middle, drop=False)
    expect(editor.root.locator(".pnne-drop")).to_have_attribute("data-edge", "linear1.output->linear2.input")
    editor.page.mouse.up()
    workbench.done("Insert relu", editor)
    workbench.expect_edges(
        editor, "x.output->linear1.input", "linear1.output->relu.input", "relu.output->linear2.input"
    )
    editor.press("Control+z")
    expect(editor.edge("linear1.output", "linear2.input")).to_be_attached()
    assert workbench.position("relu") == (280.0, 270.0), "the move and the edges are one step"


# Connecting


def test_deleting_a_middle_node_offers_to_close_the_gap(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    editor.pick("linear1")
    editor.press("Delete")
    editor.toast.get_by_role("button", name="Connect x.output → linear2.input").click()
    workbench.done("Connect x.output → linear2.input", editor)
    workbench.expect_edges(editor, "x.output->linear2.input")
    editor.press("Control+z", "Control+z")
    expect(editor.node("linear1")).to_be_visible()
    editor.pick("linear1")
    editor.press("Shift+Delete")
    workbench.done("Delete linear1", editor)
    workbench.expect_edges(editor, "x.output->linear2.input")


# Selecting, copying


def test_a_box_and_shift_select_and_the_kernel_knows(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    top, bottom = editor.node("x").bounding_box(), editor.node("linear1").bounding_box()
    assert top is not None
    assert bottom is not None
    editor.page.keyboard.down("Shift")
    editor.drag_point(
        (top["x"] - 30, top["y"] - 15), (bottom["x"] + bottom["width"] + 30, bottom["y"] + bottom["height"] + 15)
    )
    editor.page.keyboard.up("Shift")
    expect(editor.selected).to_have_count(2)
    workbench.notebook.wait_for("sorted(editor.selection) == ['linear1', 'x']")
    editor.node("linear2").locator(".pnne-card-header").click(modifiers=["Shift"])
    workbench.notebook.wait_for("len(editor.selection) == 3")
    editor.node("x").locator(".pnne-card-header").click(modifiers=["Shift"])
    workbench.notebook.wait_for("sorted(editor.selection) == ['linear1', 'linear2']")
    # Shift and a click select cells in a notebook, and must not here.
    assert workbench.page.locator(".jp-Cell.jp-mod-multiSelected").count() == 0
    workbench.value("setattr(editor, 'selection', ('x',))")
    expect(editor.selected).to_have_count(1)
    expect(editor.root.get_by_label("Name", exact=True)).to_have_value("x")


def test_a_selection_is_copied_cut_pasted_and_duplicated_under_new_names(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    editor.pick("linear1", "linear2")
    editor.press("Control+d")
    workbench.done("Duplicate 2 nodes", editor)
    assert "linear3.output->linear4.input" in workbench.edges
    editor.press("Control+c", "Control+v")
    workbench.done("Paste 2 nodes", editor)
    assert "linear5.output->linear6.input" in workbench.edges
    editor.press("Control+x")
    workbench.done("Delete 2 nodes", editor)
    assert workbench.nodes == ["x", "linear1", "linear2", "linear3", "linear4"]
    editor.press("Control+v")
    workbench.done("Paste 2 nodes", editor)
    assert workbench.nodes[-2:] == ["linear5", "linear6"]
    assert workbench.properties("linear6") == {"out_features": 8}
    text = workbench.page.evaluate("navigator.clipboard.readText()")
    # What another notebook gets is the JSON on the clipboard, pasted among names of its own.
    other = workbench.open("chain('Linear', out_features=3)")
    workbench.page.evaluate("text => navigator.clipboard.writeText(text)", text)
    other.canvas.focus()
    other.press("Control+v")
    workbench.done("Paste 2 nodes", other)
    assert workbench.nodes == ["x", "linear1", "linear5", "linear6"]
    assert workbench.properties("linear1") == {"out_features": 3}
    assert workbench.properties("linear6") == {"out_features": 8}
    expect(other.edge("linear5.output", "linear6.input")).to_be_attached()


# Placing


def test_nodes_are_aligned_spread_nudged_and_snapped(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    workbench.value("graph.move('linear1', 40.0, 120.0)")
    workbench.in_step(editor)
    editor.canvas.focus()
    editor.press("Control+a")
    editor.button("Align left").click()
    workbench.done("Align 3 nodes", editor)
    assert [workbench.position(name)[0] for name in workbench.nodes] == [0, 0, 0]
    editor.button("Distribute vertically").click()
    workbench.done("Distribute 3 nodes", editor)
    assert workbench.position("linear1") == (0, 180)
    editor.pick("linear1")  # alone: a click on one of several means that one
    editor.press("ArrowRight", "ArrowRight", "ArrowUp", "Shift+ArrowRight")
    workbench.notebook.wait_for("tuple(graph['linear1'].position) == (80, 172)")
    workbench.done("Move linear1", editor)
    editor.press("Control+z")
    workbench.notebook.wait_for("tuple(graph['linear1'].position) == (0, 180)")  # four steps in a row are one edit
    editor.press("Control+Shift+z")
    workbench.done("Move linear1", editor)
    editor.button("Snap to grid").click()
    x, y = editor.centre(editor.node("linear1").locator(".pnne-card-header"))
    editor.drag(editor.node("linear1").locator(".pnne-card-header"), x + 50, y + 5)
    workbench.notebook.wait_for("graph['linear1'].position[0] > 100")
    assert [value % 12 for value in workbench.position("linear1")] == [0, 0]


def test_the_view_fits_zooms_to_the_selection_and_follows_the_little_map(workbench: Workbench) -> None:
    editor = workbench.open("chain(*['ReLU'] * 12, step=200.0)")
    before = workbench.value("graph.version")
    editor.button("Fit view").click()
    expect(editor.node("relu12")).to_be_in_viewport()
    editor.wait_until_at_rest()
    whole = editor.page.evaluate(ZOOM)
    editor.pick("relu11", "relu12")
    editor.button("Zoom to selection").click()
    editor.page.wait_for_function(f"whole => ({ZOOM})() > 1.5 * whole", arg=whole)
    editor.wait_until_at_rest()
    expect(editor.node("x")).not_to_be_in_viewport()
    little = editor.root.get_by_role("img", name="Overview of the graph").bounding_box()
    assert little is not None
    editor.page.mouse.click(little["x"] + little["width"] / 2, little["y"] + 10)
    expect(editor.node("x")).to_be_in_viewport()
    expect(editor.node("relu12")).not_to_be_in_viewport()
    assert workbench.value("graph.version") == before, "looking changes nothing"
