"""What the explorer shows beside its map, beside a selected node of the editor, in a real JupyterLab."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.axe import violations
from tests.browser.jupyter import LabServer, Notebook, Theme, write_notebook

SETUP = """
import pnne_nb as pn
from tests.widgets.explorer.digits import digits
net, x, y = digits()
"""
EDITOR = """
editor = pn.GraphEditor(net, data=x, target=y)
editor
"""


@pytest.fixture(scope="module")
def notebook(lab_server: LabServer, browser: Browser) -> Iterator[Notebook]:
    write_notebook(lab_server.directory / "beside.ipynb", [SETUP, EDITOR])
    with Notebook(lab_server, browser, "beside.ipynb") as notebook:
        notebook.collapse_sidebar()
        notebook.run_cell(0)
        yield notebook


@pytest.fixture
def root(notebook: Notebook) -> Locator:
    notebook.run_cell(1)
    root = notebook.output_area(1).get_by_test_id("pnne-editor")
    root.locator("[data-node='1']").wait_for()
    return root


def test_what_is_selected_is_asked_beside_it_and_shown_in_the_tree(notebook: Notebook, root: Locator) -> None:
    root.locator("[data-node='1']").click()
    look = root.get_by_test_id("pnne-look")
    expect(look.get_by_role("heading", name="1", exact=True)).to_be_visible(timeout=60_000)
    notebook.evaluate("setattr(editor, 'example', 3)")
    expect(look.get_by_text("Example 3", exact=True)).to_be_visible()
    look.get_by_role("button", name="Units", exact=True).click()
    look.get_by_role("button", name="Switch off", exact=True).first.click()
    expect(look.locator(".pnne-answer", has_text="Answer with the changes")).to_be_visible()
    notebook.screenshot("ask-beside", root)
    # Keys inside are not the editor's.
    look.get_by_role("button", name="Switch off", exact=True).first.press("Delete")
    assert notebook.evaluate("'1' in editor.graph")
    look.get_by_role("button", name="Show in the tree").click()
    explorer = notebook.output_area(1).get_by_test_id("pnne-explorer")
    explorer.locator("canvas").first.wait_for()
    expect(explorer.get_by_text("Example 3", exact=True)).to_be_visible()
    notebook.evaluate("editor.explorer.select('4')")
    expect(root.locator(".react-flow__node.selected [data-node='4'], [data-node='4'].selected")).to_be_visible()
    expect(look.get_by_text("Unit 0", exact=True)).to_be_visible()
    root.get_by_role("tab", name="Properties").click()
    expect(root.locator("[data-property='4.out_features']")).to_be_visible()
    root.get_by_role("tab", name="Ask").click()
    # An edit: the model as it is now is asked.
    look.get_by_role("button", name="Layer", exact=True).click()
    notebook.evaluate("editor.graph.set('4', bias=False) is None")
    expect(look.get_by_text("720", exact=True)).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_panel_beside_a_node_is_for_everybody(notebook: Notebook, root: Locator, theme: Theme) -> None:
    notebook.set_theme(theme)
    root.locator("[data-node='1']").click()
    look = root.get_by_test_id("pnne-look")
    expect(look.get_by_role("heading", name="1", exact=True)).to_be_visible(timeout=60_000)
    notebook.screenshot(f"ask-beside-{theme}", root)
    assert violations(notebook.page, "[data-testid='pnne-look']") == ""
    sizes = "one => one.innerText?.trim() ? parseFloat(getComputedStyle(one).fontSize) : 11"
    assert look.evaluate(f"root => Math.min(...[...root.querySelectorAll('*')].map({sizes}))") >= 11
