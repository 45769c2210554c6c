"""axe-core at a zoom of 200 %: editor, dashboard and explorer in JupyterLab, their dialogs and menus, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from playwright.sync_api import Page, expect

from tests.axe import violations
from tests.browser.conftest import OpenNotebook
from tests.browser.jupyter import Notebook, Theme

ZOOMED = (700, 500)
"""What a window of 1400 by 1000 pixels has left at 200 %."""

EDITOR = ".pnne-editor"

SHOW_EDITOR = """
import pnne_nb as pn
graph = pn.NodeGraph("net")
graph.add("Input", name="x", shape=("N", 8))
graph.add("Linear", name="fc1", out_features=8)
graph.add("ReLU", name="act")
graph.add("Linear", name="fc2")
graph.add("ReLU", name="loose")
graph.connect("x", "fc1", "act", "fc2")
graph.frames.add("Layers", around=["fc1"])
graph.group(["act"], name="block")
editor = pn.GraphEditor(graph, height=440)
editor
"""

SHOW_TRAINING = """
import torch
from torch import nn
import pnne_nb as pn
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
engine = pn.TrainingEngine(net, (torch.randn(64, 4), torch.randint(0, 2, (64,))), epochs=3, batch_size=16)
engine.start(); engine.wait()
dashboard = pn.TrainingDashboard(engine)
dashboard
"""


def close_sheet(page: Page) -> None:
    page.keyboard.press("Escape")


def steps(notebook: Notebook) -> dict[str, Callable[[], object]]:
    """What opens in the editor, one after the other, by keys as by pointer."""
    page = notebook.page
    root = page.get_by_test_id("pnne-editor")
    region = root.get_by_role("region", name="Graph")
    keys: Callable[[str], Callable[[], object]] = lambda key: lambda: region.press(key)  # noqa: E731  # one for each key
    return {
        "as it opens": lambda: None,
        "menu of the canvas": keys("Shift+F10"),
        "list of keys": keys("?"),
        "history": keys("z"),
        "search for a type": keys("Space"),
        "search for a node": keys("Control+f"),
        "palette": keys("/"),
        "export": keys("Shift+E"),
        "source": lambda: root.get_by_role("button", name="Code", exact=True).click(),
        "problems": lambda: root.get_by_role("button", name="problem").click(),
    }


@pytest.mark.parametrize("theme", get_args(Theme))
def test_the_editor_and_what_opens_in_it(open_notebook: OpenNotebook, theme: Theme) -> None:
    notebook = open_notebook(SHOW_EDITOR, size=ZOOMED)
    notebook.collapse_sidebar()
    notebook.set_theme(theme)
    notebook.run_cell(0)
    root = notebook.page.get_by_test_id("pnne-editor")
    expect(root.locator("[data-node]").first).to_be_visible()
    notebook.scroll_to(0)
    found = {}
    for what, act in steps(notebook).items():
        act()
        notebook.page.wait_for_timeout(250)
        if serious := violations(notebook.page, EDITOR):
            found[what] = serious
        notebook.screenshot(f"zoomed-editor-{what.replace(' ', '-')}-{theme}")
        for _ in range(2):
            close_sheet(notebook.page)
        for name in ("Close", "Close the export"):
            close = root.get_by_role("button", name=name, exact=True)
            if close.count():
                close.first.click()
    assert found == {}


@pytest.mark.parametrize("theme", get_args(Theme))
def test_the_dashboard_and_the_explorer(open_notebook: OpenNotebook, theme: Theme) -> None:
    notebook = open_notebook(SHOW_TRAINING, "pn.ModuleExplorer(net)", size=ZOOMED)
    notebook.collapse_sidebar()
    notebook.set_theme(theme)
    notebook.run_cell(0)
    dashboard = notebook.page.locator(".pnne-dashboard")
    expect(dashboard).to_be_visible()
    assert violations(notebook.page, ".pnne-dashboard") == ""
    notebook.run_cell(1)
    explorer = notebook.page.locator(".pnne-explorer")
    expect(explorer).to_be_visible()
    notebook.page.wait_for_timeout(500)
    assert violations(notebook.page, ".pnne-explorer") == ""
    notebook.screenshot(f"zoomed-explorer-{theme}")
