"""Several views, layout and settings of the editor in a real JupyterLab."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.workbench import Workbench

PAIR = "chain('Linear', 'Linear', out_features=8)"


# Several views


def test_two_views_show_one_document_whoever_is_quicker(workbench: Workbench) -> None:
    first, second = workbench.open_views(2, PAIR, "height=400")
    # Both in one turn of the page's clock: neither has seen what the other does.
    workbench.page.evaluate(
        """() => {
          const [first, second] = document.querySelectorAll("[data-testid=pnne-editor] .pnne-canvas");
          const press = (canvas, key, ctrlKey = false) =>
            canvas.dispatchEvent(new KeyboardEvent("keydown", {key, ctrlKey, bubbles: true, cancelable: true}));
          for (const canvas of [first, second]) press(canvas, "a", true);
          press(first, "d", true);
          press(second, "Delete");
          press(first, "h");
        }"""
    )
    workbench.notebook.wait_for("graph.version == 4")
    assert len(workbench.nodes) == 3, "the copies of what the second view has deleted"
    for view in (first, second):
        workbench.in_step(view)
        workbench.expect_nodes_shown(view)
        expect(view.root.locator(".pnne-collapsed")).to_have_count(3)
    # Code, and another view's undo, reach them both.
    workbench.execute("graph.add('ReLU', name='late')")
    second.button("Undo").click()
    for view in (first, second):
        expect(view.node("late")).to_have_count(0)
        workbench.in_step(view)


# Layout


def test_arranging_is_one_step_stable_and_of_nested_graphs_too(workbench: Workbench) -> None:
    editor = workbench.open("chain('Linear', 'ReLU', 'Linear', out_features=8)")
    workbench.execute("graph.group(['relu1', 'linear2'], name='block')\ngraph.move('linear1', 900.0, 40.0)")
    workbench.in_step(editor)
    moved = workbench.position("linear1")
    editor.button("Arrange").click()
    workbench.notebook.wait_for(f"tuple(graph['linear1'].position) != {moved}")
    workbench.in_step(editor)
    label = workbench.value("graph.undo_label")
    arranged = {name: workbench.position(name) for name in workbench.nodes}
    assert arranged["x"][1] < arranged["linear1"][1] < arranged["block"][1]
    # From left to right by a click with Shift or by Shift+R, and back.
    editor.button("Arrange").click(modifiers=["Shift"])
    workbench.notebook.wait_for("graph['x'].position[0] < graph['linear1'].position[0] < graph['block'].position[0]")
    editor.canvas.focus()
    editor.press("Shift+A")
    workbench.notebook.wait_for(f"tuple(graph['linear1'].position) == {arranged['linear1']}")
    editor.press("Shift+R")
    workbench.notebook.wait_for("graph['x'].position[0] < graph['linear1'].position[0]")
    editor.press("Control+z", "Control+z", "Control+z")
    workbench.notebook.wait_for(f"graph.undo_label == {label!r} and tuple(graph['x'].position) == {arranged['x']}")
    workbench.in_step(editor)
    version = workbench.value("graph.version")
    editor.press("Shift+A")
    expect(editor.said).to_have_text("Arrange")
    assert workbench.value("graph.version") == version, "what stands well stays"
    editor.wait_until_at_rest()
    editor.node("block").dblclick()
    expect(editor.node("block.relu1")).to_be_visible()
    workbench.execute("graph.move('block.relu1', 700.0, 10.0)")
    workbench.in_step(editor)
    editor.canvas.focus()
    editor.press("Shift+A")
    workbench.notebook.wait_for("graph['block.relu1'].position[0] < 700")
    editor.press("Control+z", "Control+z")
    workbench.notebook.wait_for(f"graph.undo_label == {label!r}")
    editor.press("Control+z")
    workbench.notebook.wait_for(f"tuple(graph['linear1'].position) == {moved}")


# Settings


def test_who_may_only_look_sees_an_imported_block_in_order(workbench: Workbench) -> None:
    workbench.execute(
        "import torch\n"
        "body = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(5)))\n"
        "net = pn.from_module(torch.nn.Sequential(body, torch.nn.ReLU()), args=(torch.ones(1, 8),))\n"
        "block = next(name for name, node in net.nodes.items() if node.type == 'Subgraph')"
    )
    block = workbench.value("block")
    editor = workbench.open("net", "read_only=True")
    editor.node(block).dblclick()
    inside = editor.root.locator(f"[data-node^='{block}.'][data-type=Linear]")
    expect(inside).to_have_count(5)
    editor.wait_until_at_rest()
    boxes = [box for box in (node.bounding_box() for node in inside.all()) if box]
    assert len({round(box["x"]) for box in boxes}) == 1, "one below the other, without a change of the document"
    assert all(low["y"] > high["y"] + high["height"] for high, low in pairwise(boxes))
    assert workbench.value("graph.version") == workbench.value("net.version")
    assert workbench.value("all(node.position is None for node in graph.nodes.values())")


def test_read_only_height_theme_and_full_screen(workbench: Workbench) -> None:
    workbench.notebook.set_theme("light")
    editor = workbench.open(PAIR, "height=420, read_only=True, theme='dark'")
    before = workbench.value("graph.version")
    box = editor.root.bounding_box()
    assert box is not None
    assert box["height"] == pytest.approx(420, abs=2)
    expect(editor.root).to_have_attribute("data-theme", "dark")
    expect(editor.root.get_by_role("searchbox")).to_have_count(0)
    said = editor.root.get_by_text("Read-only", exact=True)
    expect(said).to_be_visible()
    expect(editor.root.get_by_role("complementary", name="Properties")).not_to_contain_text("Del")
    editor.pick("linear1")
    expect(editor.field("linear1", "out_features")).to_be_disabled()
    editor.canvas.focus()
    editor.press("Delete", "Control+z", "Control+v", "Shift+A", "h", "Shift+G", "ArrowRight", "Control+d", "Control+g")
    editor.page.mouse.dblclick(*editor.on_canvas(60, 300))
    expect(editor.toast.first).to_contain_text("read-only")
    expect(editor.node("linear1")).to_be_visible()
    assert workbench.value("graph.version") == before
    workbench.execute("editor.read_only = False\neditor.theme = 'auto'\neditor.height = 520")
    expect(editor.root).to_have_attribute("data-theme", "light")
    expect(said).to_have_count(0)
    expect(editor.root).to_have_css("height", "520px")
    editor.press("Escape", "Escape")
    editor.pick("linear2")
    editor.press("Delete")
    workbench.done("Delete linear2", editor)
    full = "document.fullscreenElement?.dataset.testid === 'pnne-editor'"
    editor.button("Full screen").click()
    workbench.page.wait_for_function(f"() => {full}")
    editor.button("Full screen").click()
    workbench.page.wait_for_function("() => document.fullscreenElement === null")
