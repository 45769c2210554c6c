"""The table of forms fills while they are built, and devices are written on cards, in a real JupyterLab."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.pages import EditorPage

TIMED = 120.0
"""Seconds within which three forms are built and timed; it takes five on a quiet machine."""

TABLE = """
import torch
from torch import nn
import pnne_nb as pn

x, y = torch.randn(256, 1, 8, 8), torch.randint(0, 3, (256,))
net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 3)).eval()
targets = ["inference_mode, channels_last", "CUDA graphs", "ONNX Runtime", "int8 in eager PyTorch"]
shown = pn.TargetDashboard(net, (x, y), targets=targets, budget=("val_accuracy", 5))
shown
"""

PLACED = """
graph = pn.sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2), nn.Linear(2, 64), input=("N", 64))
editor = pn.GraphEditor(graph, height=420)
editor.marks = pn.passes.PlaceByMemory({"cpu": "18 kB", "cuda:0": "18 kB"}).plan(graph, (torch.randn(1, 64),)).marks
editor
"""


def test_the_table_fills_and_is_sorted_and_devices_are_on_the_cards(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook(TABLE, PLACED)
    notebook.collapse_sidebar()
    notebook.run_cell(0)
    panel = notebook.page.locator(".pnne-targets")
    picture = panel.get_by_role("img")
    expect(picture).to_be_visible(timeout=1000 * TIMED)
    expect(panel.get_by_role("status")).to_contain_text("Ship", timeout=1000 * TIMED)
    expect(picture).to_contain_text("There is no CUDA device here.")
    notebook.screenshot("targets-light", panel)
    notebook.set_theme("dark")
    notebook.screenshot("targets-dark", panel)
    panel.get_by_role("combobox").select_option("smallest first")
    expect(picture.locator("text", has_text="int8 in eager PyTorch")).to_be_visible()
    notebook.wait_for("shown._picture.value.index('int8 in eager') < shown._picture.value.index('>eager<')")

    notebook.run_cell(1)
    editor = EditorPage(notebook.page, notebook.page.get_by_test_id("pnne-editor"))
    first, last = (editor.node(name).locator(".pnne-lens") for name in ("linear1", "linear3"))
    expect(last).to_have_attribute("title", "8 B are moved to cuda:0 for it.")
    expect(first).to_have_text("cpu")
    notebook.screenshot("placement-dark", editor.root)
    notebook.set_theme("light")
    notebook.screenshot("placement-light", editor.root)
    assert not notebook.console_errors
