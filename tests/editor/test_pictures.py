"""Pictures of the graph from the editor, and the editor as large as the screen."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor

SVG = "{http://www.w3.org/2000/svg}"


def small() -> NodeGraph:
    """Two connected layers whose block is entered by no one."""
    graph = NodeGraph("small")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="fc1", out_features=8)
    graph.connect("x", "fc1")
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


def test_the_editor_fills_the_screen_and_returns(open_editor: OpenEditor) -> None:
    editor = open_editor(small())
    editor.button("Full screen").click()
    editor.page.wait_for_function("() => document.fullscreenElement?.dataset.testid === 'pnne-editor'")
    editor.button("Full screen").click()
    editor.page.wait_for_function("() => document.fullscreenElement === null")
    expect(editor.node("fc1")).to_be_visible()


def test_undo_says_what_it_takes_back(open_editor: OpenEditor) -> None:
    graph = small()
    editor = open_editor(graph)
    graph.add("ReLU", name="relu")
    graph.connect("fc1", "relu")
    editor.deliver()
    expect(editor.button("Undo")).to_have_attribute("title", f"Undo {graph.undo_label} (Ctrl+Z)")
