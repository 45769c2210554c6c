"""Pictures of the graph from the editor, and the editor as large as the screen."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.schema.categories import SNOWFLAKE
from tests.editor.conftest import OpenEditor, chain
from tests.editor.page import ARTIFACTS, EditorPage

SVG = "{http://www.w3.org/2000/svg}"


def small() -> NodeGraph:
    """Two connected layers whose block is entered by no one."""
    graph = NodeGraph("small")
    graph.chain(("Input", {"name": "x", "shape": ("N", 8)}), ("Linear", {"name": "fc1", "out_features": 8}))
    graph.arrange()
    return graph


def test_the_graph_is_saved_as_png_and_as_svg(open_editor: OpenEditor, tmp_path: Path) -> None:
    editor = open_editor(small())
    with editor.page.expect_download() as png:
        editor.button("Save as PNG").click()
    assert png.value.suggested_filename == "small.png"
    png.value.save_as(tmp_path / "small.png")
    content = (tmp_path / "small.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20]) == 2 * (176 + 48), "the picture is two pixels sharp"
    with editor.page.expect_download() as svg:
        editor.button("Save as PNG").click(modifiers=["Shift"])
    assert svg.value.suggested_filename == "small.svg"
    svg.value.save_as(tmp_path / "small.svg")
    words = [text.text for text in ET.parse(tmp_path / "small.svg").iter(f"{SVG}text")]
    assert {"x", "Input", "fc1", "Linear", "N×6×24×24"} <= set(words)


def in_view(editor: EditorPage, *names: str) -> bool:
    """Whether nodes are in the canvas as a whole, as far from its left edge as from its right one."""
    boxes = [editor.node(name).bounding_box() for name in names]
    canvas = editor.root.locator(".pnne-canvas").bounding_box()
    if canvas is None or None in boxes:
        return False
    left = min(box["x"] for box in boxes if box) - canvas["x"]
    right = canvas["x"] + canvas["width"] - max(box["x"] + box["width"] for box in boxes if box)
    top = min(box["y"] for box in boxes if box) - canvas["y"]
    bottom = canvas["y"] + canvas["height"] - max(box["y"] + box["height"] for box in boxes if box)
    return abs(left - right) < 2 and min(top, bottom) > 0


def wait_until_in_view(editor: EditorPage, *names: str) -> None:
    """Wait until it is so: a view glides there, and on a busy machine it begins late."""
    for _ in range(600):
        if in_view(editor, *names):
            return
        editor.page.wait_for_timeout(50)
    pytest.fail(f"{names} are not in view.")


def test_the_editor_fills_the_screen_and_returns(open_editor: OpenEditor) -> None:
    editor = open_editor(small())
    wait_until_in_view(editor, "x", "fc1")
    for _ in range(2):
        before = editor.root.locator(".pnne-canvas").evaluate("canvas => canvas.clientWidth")
        editor.button("Full screen").click()
        editor.page.wait_for_function(
            "before => document.querySelector('.pnne-canvas').clientWidth !== before", arg=before
        )
        wait_until_in_view(editor, "x", "fc1")
    editor.page.wait_for_function("() => document.fullscreenElement === null")


def test_who_looks_at_a_part_sees_its_middle_in_full_screen_too(open_editor: OpenEditor) -> None:
    editor = open_editor(chain(2_000.0))
    editor.node("fc1").click()
    editor.page.keyboard.press("Shift+f")
    wait_until_in_view(editor, "fc1")
    editor.button("Full screen").click()
    editor.page.wait_for_function("() => document.fullscreenElement?.dataset.testid === 'pnne-editor'")
    wait_until_in_view(editor, "fc1")
    editor.button("Full screen").click()
    editor.page.wait_for_function("() => document.fullscreenElement === null")


def test_undo_says_what_it_takes_back(open_editor: OpenEditor) -> None:
    graph = small()
    editor = open_editor(graph)
    graph.add("ReLU", name="relu")
    graph.connect("fc1", "relu")
    editor.deliver()
    expect(editor.button("Undo")).to_have_attribute("title", f"Undo {graph.undo_label} (Ctrl+Z)")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_frozen_has_a_snowflake_in_the_saved_picture(
    open_editor: OpenEditor, tmp_path: Path, theme: str
) -> None:
    graph = small()
    graph.freeze("fc1")
    editor = open_editor(graph, theme=theme)
    with editor.page.expect_download() as svg:
        editor.button("Save as PNG").click(modifiers=["Shift"])
    svg.value.save_as(tmp_path / "small.svg")
    flakes = [group for group in ET.parse(tmp_path / "small.svg").iter(f"{SVG}g") if SNOWFLAKE in drawings(group)]
    assert [group.get("aria-label", "").split(",")[0] for group in flakes if group.get("aria-label")] == ["fc1"]
    with editor.page.expect_download() as png:
        editor.button("Save as PNG").click()
    png.value.save_as(ARTIFACTS / f"frozen-{theme}.png")


def drawings(group: ET.Element) -> list[str | None]:
    return [path.get("d") for path in group.iter(f"{SVG}path")]
