"""Blocks, history, layout, pictures and settings of the editor in a real JupyterLab."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.workbench import Workbench

PAIR = "chain('Linear', 'Linear', out_features=8)"


# Blocks


def test_a_block_is_made_entered_shared_looked_into_and_taken_apart(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    editor.pick("linear1", "linear2")
    editor.press("Control+g")
    workbench.done("Group subgraph1", editor)
    assert workbench.nodes == ["x", "subgraph1"]
    editor.node("subgraph1").dblclick()
    expect(editor.node("subgraph1.linear1")).to_be_visible()
    editor.root.get_by_role("navigation", name="Nested graphs").get_by_role("button", name="net").click()
    expect(editor.node("subgraph1")).to_be_visible()
    editor.pick("subgraph1")
    editor.press("Control+c", "Control+v")
    workbench.notebook.wait_for("'subgraph2' in graph.nodes")
    expect(editor.node("subgraph1").locator(".pnne-times")).to_have_text("×2")
    editor.press("p")
    peek = editor.root.get_by_role("dialog", name="Inside of subgraph2")
    expect(peek.get_by_role("img")).to_have_attribute("alt", re.compile("linear1, Linear"))
    peek.get_by_role("button", name="Enter").click()
    expect(editor.root.get_by_role("note")).to_contain_text("A change here changes all 2 uses.")
    editor.pick("subgraph2.linear1")
    field = editor.field("subgraph2.linear1", "out_features")
    field.fill("64")
    field.press("Enter")
    workbench.done("Set linear1.out_features", editor)
    assert workbench.properties("subgraph1.linear1") == workbench.properties("subgraph2.linear1")
    assert workbench.properties("subgraph1.linear1") == {"out_features": 64}
    editor.canvas.focus()
    editor.press("Escape", "Escape")
    expect(editor.node("subgraph1")).to_be_visible()
    editor.pick("subgraph1")
    editor.press("Control+Shift+g")
    workbench.notebook.wait_for("'linear2' in graph.nodes and 'subgraph1' not in graph.nodes")
    assert "x.output->linear1.input" in workbench.edges
    editor.pick("subgraph2")
    editor.root.get_by_role("button", name="Publish").click()
    expect(editor.root.get_by_role("listbox", name="My blocks")).to_be_visible()
    name = workbench.value("list(pn.blocks)")[0]
    editor.option(f"block:{name}").click()
    workbench.notebook.wait_for("graph.undo_label.startswith('Add ')")
    assert workbench.value("sum(node.type == 'Subgraph' for node in graph.nodes.values())") == 2
    editor.root.get_by_role("button", name="Withdraw").click()
    workbench.notebook.wait_for("not list(pn.blocks)")


# History and several views


def test_undo_goes_through_the_edits_of_code_and_mouse_by_their_names(workbench: Workbench) -> None:
    editor = workbench.open(PAIR)
    before = workbench.value("graph.to_json()")
    editor.add_by_click("ReLU", "act")
    workbench.execute("graph.connect('linear2', 'act')")
    workbench.in_step(editor)
    editor.pick("act")
    editor.press("Delete")
    workbench.done("Delete act", editor)
    undo, redo = editor.button("Undo"), editor.button("Redo")
    for label in ("Delete act", "Connect linear2 → act", "Rename relu1 to act", "Add relu1"):
        expect(undo).to_have_attribute("title", f"Undo {label} (Ctrl+Z)")
        undo.click()
        expect(redo).to_have_attribute("title", f"Redo {label} (Ctrl+Shift+Z)")
        expect(editor.said).to_have_text(f"Undo: {label}")
    assert workbench.value("graph.to_json()") == before
    for _ in range(4):
        redo.click()
    workbench.done("Delete act", editor)
    workbench.execute("graph.undo()")
    expect(editor.node("act")).to_be_visible()
    expect(editor.edge("linear2.output", "act.input")).to_be_attached()


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


# Pictures and settings


def test_the_graph_is_saved_as_png_and_svg(workbench: Workbench, tmp_path: Path) -> None:
    editor = workbench.open(PAIR)
    expect(editor.edge("linear1.output", "linear2.input")).to_contain_text("N×8")
    with workbench.page.expect_download() as png:
        editor.button("Save as PNG").click()
    png.value.save_as(tmp_path / "net.png")
    content = (tmp_path / "net.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20]) > 300
    with workbench.page.expect_download() as svg:
        editor.button("Save as PNG").click(modifiers=["Shift"])
    assert svg.value.suggested_filename == "net.svg"
    svg.value.save_as(tmp_path / "net.svg")
    words = {text.text for text in ET.parse(tmp_path / "net.svg").iter("{http://www.w3.org/2000/svg}text")}
    assert {"x", "linear1", "linear2", "Linear", "N×8"} <= words


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
