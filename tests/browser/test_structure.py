"""Frames, collapsed nodes and blocks inside a real JupyterLab, among its shortcuts and between two notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.pages import EditorPage

if TYPE_CHECKING:
    from tests.browser.conftest import OpenNotebook
    from tests.browser.jupyter import Theme
    from tests.browser.workbench import Workbench

ENCODER = """
import pnne_nb as pn
graph = pn.NodeGraph("encoder")
graph.add("Input", name="tokens", shape=("N", 8, 32))
for kind, name, properties in [
    ("LayerNorm", "norm", {"normalized_shape": (32,)}), ("Linear", "up", {"out_features": 64}),
    ("GELU", "gelu", {}), ("Linear", "down", {"out_features": 32}), ("add", "residual", {}), ("Output", "out", {}),
]:
    graph.add(kind, name=name, **properties)
for start, end in [("tokens", "norm"), ("norm", "up"), ("up", "gelu"), ("gelu", "down"),
                   ("down", "residual.input"), ("tokens", "residual.other"), ("residual", "out")]:
    graph.connect(start, end)
graph.group(["norm", "up", "gelu", "down", "residual"], name="ffn1")
graph.add("Subgraph", name="ffn2", definition="ffn1")
graph.disconnect("ffn1", "out")
graph.add("Linear", name="head", out_features=10)
graph.add("ReLU", name="relu")
for start, end in [("ffn1", "ffn2"), ("ffn2", "head"), ("head", "relu"), ("relu", "out")]:
    graph.connect(start, end)
graph.collapse("relu")
graph.arrange()
graph.frames.add("Classifier", around=["head", "relu"], colour="blue")
graph.arrange("ffn1")
graph.arrange()
"""


def open_encoder(workbench: Workbench) -> EditorPage:
    """Show an editor of the encoder."""
    workbench.execute(ENCODER)
    return workbench.open("graph", "")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_structure_looks_like_this(workbench: Workbench, theme: Theme) -> None:
    notebook = workbench.notebook
    notebook.set_theme(theme)
    editor = open_encoder(workbench)
    expect(editor.root).to_have_attribute("data-theme", theme)
    expect(editor.node("ffn1").locator(".pnne-times")).to_have_text("×2")
    expect(editor.edge("head.output", "relu.input")).to_contain_text("10")
    notebook.screenshot(f"lab-structure-{theme}", editor.root)
    editor.select("ffn1")
    editor.page.keyboard.press("p")
    peek = editor.root.get_by_role("dialog", name="Inside of ffn1")
    expect(peek.get_by_role("img")).to_be_visible()
    notebook.screenshot(f"lab-structure-{theme}-peek", editor.root)
    peek.get_by_role("button", name="Enter").click()
    expect(editor.node("ffn1.norm")).to_be_visible()
    notebook.screenshot(f"lab-structure-{theme}-inside", editor.root)


def test_a_block_goes_from_one_notebook_to_another(workbench: Workbench, open_notebook: OpenNotebook) -> None:
    editor = open_encoder(workbench)
    editor.select("ffn1")
    editor.page.keyboard.press("Control+c")
    editor.page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('pnne-fragment')")
    copied = editor.page.evaluate("navigator.clipboard.readText()")
    there = open_notebook(size=(1500, 1000))
    there.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    index = there.run("import pnne_nb as pn\ngraph = pn.NodeGraph('other')\npn.GraphEditor(graph)")
    other = EditorPage(there.page, there.output_area(index).get_by_test_id("pnne-editor"))
    there.page.evaluate("text => navigator.clipboard.writeText(text)", copied)
    other.canvas.click()
    other.page.keyboard.press("Control+v")
    expect(other.node("ffn1")).to_be_visible()
    there.wait_for("'ffn1' in graph.nodes and graph['ffn1.gelu'].type == 'GELU'")


def test_a_published_block_is_in_every_open_editor(workbench: Workbench) -> None:
    workbench.execute(ENCODER)
    first, second = workbench.open_views(2, "graph", "height=400")
    workbench.execute("pn.blocks.publish(graph, 'ffn1', 'FeedForward')")
    try:
        expect(first.option("block:FeedForward")).to_be_visible()
        second.option("block:FeedForward").click()
        workbench.done("Add feed_forward1", second)
        expect(first.node("feed_forward1")).to_be_attached()
        assert workbench.value("graph['feed_forward1.up'].type") == "Linear"
    finally:
        workbench.execute("pn.blocks.remove('FeedForward')")


def test_a_folded_row_is_folded_still_when_the_page_is_loaded_again(workbench: Workbench) -> None:
    editor = workbench.open("chain(*['ReLU'] * 6)")
    editor.button("Fold repeats").click()
    expect(editor.node("relu1")).to_contain_text("relu1 … relu6")
    workbench.notebook.wait_for("editor.folded == ('relu1',)")
    workbench.notebook.reload()
    expect(editor.node("relu1")).to_contain_text("relu1 … relu6")
    workbench.execute("graph.rename('relu1', 'first')")
    expect(editor.node("first")).to_contain_text("first … relu6")
    editor.button("Fold repeats").click()
    expect(editor.node("relu2")).to_be_visible()
    workbench.notebook.wait_for("editor.folded == ()")
