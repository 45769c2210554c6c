"""Asking a network in a real JupyterLab: from a wrong guess to the unit that made it, and into the drawing, by mouse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.jupyter import LabServer, Notebook, Theme, write_notebook

SETUP = """
import pnne_nb as pn
from tests.widgets.explorer.digits import digits
net, x, y = digits()
"""
SHOW = """
explorer = pn.ModuleExplorer(net, x, y)
explorer
"""


@pytest.fixture(scope="module")
def notebook(lab_server: LabServer, browser: Browser) -> Iterator[Notebook]:
    """One notebook for all of these tests: its cells are run again for each."""
    write_notebook(lab_server.directory / "ask.ipynb", [SETUP, SHOW])
    with Notebook(lab_server, browser, "ask.ipynb") as notebook:
        notebook.collapse_sidebar()
        yield notebook


@pytest.fixture
def root(notebook: Notebook) -> Locator:
    for cell in (0, 1):
        notebook.run_cell(cell)
    root = notebook.output_area(1).locator("[data-testid='pnne-explorer']")
    root.locator("canvas").first.wait_for()
    return root


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_picture(notebook: Notebook, root: Locator, theme: Theme) -> None:
    notebook.set_theme(theme)
    root.get_by_label("Order by").select_option("mistakes")
    expect(root.get_by_text("Answer, wrong")).to_be_visible()
    assert notebook.screenshot(f"ask-strip-{theme}", root).stat().st_size > 10_000
