"""Voila: the widgets live in its page, and `pn.app` is a page without code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.jupyter import ARTIFACTS, served, write_notebook

pytestmark = pytest.mark.skipif(
    find_spec("voila") is None, reason="Voila is not installed: pip install 'pnne_nb[voila]'"
)

OpenPage = Callable[..., Page]

SHOW = """import torch
import pnne_nb as pn
net = torch.nn.Linear(2, 2, bias=False)
with torch.no_grad():
    net.weight.copy_(torch.tensor([[9.0, 0.0], [0.0, 9.0]]))"""


@pytest.fixture
def serve(browser: Browser, tmp_path: Path) -> Iterator[OpenPage]:
    """Return a function that serves a notebook of some cells, and opens its page."""
    with ExitStack() as stack:

        def open_page(*cells: str) -> Page:
            write_notebook(tmp_path / "page.ipynb", cells)
            command = "voila", "page.ipynb", "--no-browser", "--Voila.ip=127.0.0.1"
            address = stack.enter_context(served(command, tmp_path, ready="running at"))
            context = browser.new_context(viewport={"width": 1300, "height": 1000})
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(120_000)
            # The answer begins when the notebook has run.
            page.goto(address, wait_until="commit", timeout=240_000)
            return page

        yield open_page


def test_an_app_answers_what_is_typed_and_shows_no_code(serve: OpenPage) -> None:
    page = serve(SHOW, "pn.app(net, torch.eye(2), labels=['east', 'north'], features=['a', 'b'], title='Where to')")
    result = page.locator(".pnne-app table")
    result.wait_for()
    assert result.locator("tr").first.inner_text().startswith("east")
    assert "import torch" not in page.locator("body").inner_text()
    page.get_by_label("b").fill("5")
    page.keyboard.press("Enter")
    page.locator(".pnne-app tr:first-child th", has_text="north").wait_for()
    page.screenshot(path=ARTIFACTS / "voila-app.png")


def test_editor_dashboard_and_explorer_live_in_its_page(serve: OpenPage) -> None:
    page = serve(
        SHOW,
        "graph = pn.sequential(('Linear', {'out_features': 3}), input=('N', 4))\npn.GraphEditor(graph)",
        "engine = pn.TrainingEngine(net, (torch.randn(60, 2), torch.arange(60) % 2), epochs=2)\npn.TrainingDashboard(engine)",
        "pn.ModuleExplorer(torch.nn.Sequential(net))",
    )
    page.locator(".pnne-editor [data-node]").first.wait_for()
    page.get_by_role("button", name="Start").first.click()
    page.get_by_text("finished").first.wait_for()
    page.locator(".pnne-dashboard .bqplot").first.wait_for()
    page.locator(".pnne-explorer canvas").first.wait_for()
    assert not page.locator(".pnne-kept").first.is_visible()
    page.screenshot(path=ARTIFACTS / "voila.png", full_page=True)
