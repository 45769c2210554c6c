"""marimo: it loads anywidgets only, and the dashboard and the explorer live there on a canvas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.jupyter import ARTIFACTS, served
from tests.browser.pages import EditorPage

pytestmark = pytest.mark.skipif(find_spec("marimo") is None, reason="marimo is not installed: pip install marimo")

NOTEBOOK = """import marimo
app = marimo.App(width="full")

@app.cell
def _():
    import torch
    import pnne_nb as pn
    torch.manual_seed(0)
    x = torch.randn(400, 4)
    y = (x[:, 0] > 0).long()
    graph = pn.sequential(("Linear", {"out_features": 8}), "ReLU", ("Linear", {"out_features": 2}), input=("N", 4))
    engine = pn.TrainingEngine(graph, (x, y), val_data=(x[:50], y[:50]), epochs=100_000, metrics=("accuracy",))
    return engine, graph, pn, x, y

@app.cell
def _(graph, pn):
    pn.GraphEditor(graph)

@app.cell
def _(engine, pn):
    pn.TrainingDashboard(engine)

@app.cell
def _(engine, pn, x, y):
    pn.ModuleExplorer(engine.model, x[:20], y[:20])
"""


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of the notebook; its browser reaches no other server."""
    folder = tmp_path_factory.mktemp("marimo")
    (folder / "notebook.py").write_text(NOTEBOOK)
    with ExitStack() as stack:
        command = "marimo", "run", "notebook.py", "--headless", "--no-token"
        address = stack.enter_context(served(command, folder, ready="URL"))
        context = browser.new_context(viewport={"width": 1300, "height": 1000})
        stack.callback(context.close)
        context.route(lambda url: url.startswith("http") and not url.startswith(address), Route.abort)
        shown = context.new_page()
        shown.set_default_timeout(120_000)
        shown.goto(address)
        yield shown


def test_the_editor_takes_an_edit(page: Page) -> None:
    root = page.get_by_test_id("pnne-editor")
    editor = EditorPage(page, root)
    editor.node("linear1").click()
    page.keyboard.press("Delete")
    expect(editor.node("linear1")).to_have_count(0)
    page.keyboard.press("Control+z")
    expect(editor.node("linear1")).to_be_visible()


def test_the_dashboard_is_live_and_its_buttons_work(page: Page) -> None:
    dashboard = page.locator(".pnne-canvas > .pnne-dashboard")
    dashboard.get_by_role("button", name="Start", exact=True).click()
    loss = dashboard.get_by_role("img", name="step, loss").locator("path[stroke='#2f86c9']").last
    seen = loss.get_attribute("d")
    expect(loss).not_to_have_attribute("d", seen or "")
    dashboard.get_by_role("button", name="log").first.click()
    expect(dashboard.get_by_role("button", name="log").first).to_have_attribute("aria-pressed", "true")
    dashboard.get_by_role("button", name="Pause").click()
    expect(dashboard.locator(".pnne-state")).to_have_text("Paused")
    dashboard.get_by_role("button", name="Stop").click()
    expect(dashboard.locator(".pnne-state")).to_have_text("Stopped")
    page.screenshot(path=ARTIFACTS / "marimo-dashboard.png")


def test_the_explorer_answers_a_click_a_word_and_another_example(page: Page) -> None:
    explorer = page.locator(".pnne-canvas > .pnne-explorer")
    explorer.locator("svg g", has_text="linear2 ·").click()
    expect(explorer.locator(".pnne-explorer-panel")).to_contain_text("Linear(in_features=8, out_features=2")
    explorer.locator(".pnne-explorer-graph").press("ArrowUp")
    expect(explorer.locator(".pnne-explorer-panel")).to_contain_text("relu1ReLU")
    explorer.get_by_placeholder("Search").fill("relu")
    explorer.locator("option", has_text="relu1").wait_for()
    explorer.get_by_role("button", name="Next example").click()
    expect(explorer.get_by_label("Example", exact=True)).to_have_value("1")
    explorer.get_by_role("button", name="parameters").click()
    expect(explorer.locator("svg g", has_text="linear1 ·")).to_contain_text("%")
    page.screenshot(path=ARTIFACTS / "marimo-explorer.png")
