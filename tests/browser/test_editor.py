"""The editor inside a real JupyterLab: its looks among the host's styles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests import axe

if TYPE_CHECKING:
    from tests.browser.jupyter import Notebook, Theme
    from tests.browser.pages import EditorPage
    from tests.browser.workbench import Workbench

LENET = """
import pnne_nb as pn
graph = pn.NodeGraph("lenet")
last = graph.add("Input", name="x", shape=("N", 1, 28, 28))
layers = [
    ("Conv2d", "conv1", {"out_channels": 6, "kernel_size": 5}), ("ReLU", "relu1", {}),
    ("MaxPool2d", "pool1", {"kernel_size": 2}), ("flatten", "flat", {"start_dim": 1}),
    ("Linear", "fc1", {"out_features": 10}), ("Output", "y", {}),
]
for kind, name, properties in layers:
    node = graph.add(kind, name=name, **properties)
    graph.connect(last, node)
    last = node
"""

# Elements that hosts style by name; each must look as if the host said nothing.
STRAY = """(root) => [...root.querySelectorAll("dl, dt, dd, ul, li, p, h2, h3, pre, code, fieldset, header")]
  .filter((element) => getComputedStyle(element).float !== "none")
  .map((element) => element.outerHTML.slice(0, 60))"""

# Pairs of parts of the panel at rest whose boxes overlap.
OVERLAPS = """(root) => {
  const boxes = [...root.querySelectorAll(".pnne-overview > *")].map((element) => element.getBoundingClientRect());
  return boxes.filter((box, index) => index > 0 && box.top < boxes[index - 1].bottom - 1
    && box.left < boxes[index - 1].right - 1).length;
}"""


def open_lenet(workbench: Workbench) -> EditorPage:
    """Show an editor of the network; return its page once shapes are shown."""
    workbench.execute(LENET)
    editor = workbench.open("graph", "")
    expect(editor.edge("fc1.output", "y.input")).to_contain_text("10")
    return editor


def serious(notebook: Notebook) -> str:
    """What axe-core finds serious in the editor, among the host's styles and roles."""
    return axe.violations(notebook.page, "[data-testid=pnne-editor]")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_panel_keeps_its_looks_and_its_names_in_jupyterlab(workbench: Workbench, theme: Theme) -> None:
    notebook = workbench.notebook
    notebook.set_theme(theme)
    editor = open_lenet(workbench)
    expect(editor.root).to_have_attribute("data-theme", theme)
    assert serious(notebook) == ""
    assert editor.root.evaluate(STRAY) == []
    assert editor.root.evaluate(OVERLAPS) == 0
    notebook.screenshot(f"lab-editor-{theme}-overview", editor.root)
    name = editor.node("conv1").locator(".pnne-card-name")
    editor.wait_until_at_rest()
    box = name.bounding_box()
    assert box is not None
    assert box["height"] >= 0.75 * 16, "node names open too small to read"
    editor.select("conv1")
    assert serious(notebook) == ""
    notebook.screenshot(f"lab-editor-{theme}-properties", editor.root)
    editor.canvas.focus()
    editor.press("v")
    expect(editor.node("conv1").locator(".pnne-inline")).to_be_visible()
    assert serious(notebook) == ""
    notebook.screenshot(f"lab-editor-{theme}-inline", editor.root)
    editor.press("Escape")
    editor.button("Code").click()
    expect(editor.root.get_by_role("region", name="Source")).to_contain_text("class Lenet")
    notebook.screenshot(f"lab-editor-{theme}-source", editor.root)
    editor.button("Close").click()
    notebook.evaluate("editor.graph.remove('relu1')")
    editor.root.get_by_role("button", name="problem").click()
    expect(editor.root.get_by_role("list", name="Problems")).to_be_visible()
    assert serious(notebook) == ""
    notebook.screenshot(f"lab-editor-{theme}-problems", editor.root)
    assert editor.root.evaluate(STRAY) == []
