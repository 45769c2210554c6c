"""A saved notebook, read without a kernel and without a network: every output shows something."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter
from playwright.sync_api import Browser, Page, Route

from tests.browser.jupyter import write_notebook

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted([*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "notebooks" / "lessons").glob("*.ipynb")])

LIVE = """import torch
import pnne_nb as pn
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
engine = pn.TrainingEngine(net, (torch.randn(60, 4), torch.arange(60) % 3), epochs=2)
pn.TrainingDashboard(engine)"""

BLANK = """() => {
    const seen = element => element.getClientRects().length > 0 && element.getBoundingClientRect().height > 0;
    const images = [...document.querySelectorAll('.jp-OutputArea img')];
    const broken = images.filter(image => !(image.complete && image.naturalWidth > 0 && seen(image)));
    const empty = [...document.querySelectorAll('.jp-OutputArea-output')].filter(
        output => output.innerText.trim() === '' && !output.querySelector('img, svg, canvas'));
    return {images: images.length, broken: broken.map(image => image.alt), empty: empty.map(output => output.outerHTML)};
}"""


@pytest.fixture
def offline(browser: Browser) -> Iterator[Page]:
    """A page whose every request beyond the machine fails, as without a network."""
    context = browser.new_context()
    context.route(lambda url: not url.startswith("file:"), lambda route: route.abort())
    yield context.new_page()
    context.close()


def shown(page: Page, notebook: nbformat.NotebookNode, folder: Path) -> Page:
    """Convert a notebook as ``jupyter nbconvert --to html`` does, and open it."""
    html, _ = HTMLExporter().from_notebook_node(notebook)  # type: ignore[no-untyped-call]  # nbconvert leaves it untyped
    path = folder / "notebook.html"
    path.write_text(html, encoding="utf-8")
    page.goto(path.as_uri(), wait_until="domcontentloaded")
    page.wait_for_function("() => [...document.images].every(image => image.complete)")
    return page


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_has_no_blank_output(path: Path, offline: Page, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # nbformat leaves it untyped
    widgets = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code"
        and any(name in cell.source for name in ("GraphEditor(", "Dashboard(", "Explorer(", "Surface("))
    ]
    found = shown(offline, notebook, tmp_path).evaluate(BLANK)
    assert found["broken"] == []
    assert found["empty"] == []
    assert found["images"] >= len(widgets)


@pytest.fixture(scope="module")
def with_state(tmp_path_factory: pytest.TempPathFactory) -> nbformat.NotebookNode:
    """A notebook as ``jupyter execute`` leaves it: with the state of its widgets in the file."""
    path = tmp_path_factory.mktemp("state") / "live.ipynb"
    write_notebook(path, [LIVE, "engine.start(); engine.wait()"])
    # In a process of its own: it leaves a thread behind.
    subprocess.run([sys.executable, "-m", "jupyter", "execute", "--inplace", str(path)], check=True, timeout=200)
    found: nbformat.NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]  # nbformat leaves it untyped
    return found


def test_a_page_that_cannot_fetch_its_widgets_shows_their_pictures(
    offline: Page, with_state: nbformat.NotebookNode, tmp_path: Path
) -> None:
    # As VS Code and Colab show it: the code of the widgets would come from a server.
    assert "application/vnd.jupyter.widget-state+json" in with_state.metadata["widgets"]
    page = shown(offline, with_state, tmp_path)
    picture = page.locator(".pnne-kept img")
    assert picture.is_visible()
    assert page.get_by_text("This is a picture. Run the cell to work with the widget.").is_visible()
    assert "Training finished: epoch 2 of 2" in (picture.get_attribute("alt") or "")


MANAGER = os.environ.get("PNNE_HTML_MANAGER", "")
"""The file dist/embed-amd.js of the npm package @jupyter-widgets/html-manager, a loader of VS Code's and Colab's kind."""


@pytest.mark.skipif(not MANAGER, reason="PNNE_HTML_MANAGER names no file: npm install @jupyter-widgets/html-manager")
def test_a_page_that_fetches_its_widgets_shows_them(
    browser: Browser, with_state: nbformat.NotebookNode, tmp_path: Path
) -> None:
    asked: list[str] = []

    def answer(route: Route) -> None:
        """Give the installed packages' own files instead of a server's."""
        asked.append(route.request.url)
        share = Path(sys.prefix, "share", "jupyter")
        package = re.search(r"/npm/([\w-]+)@[^/]+/dist/index\.js", route.request.url)
        if "html-manager" in route.request.url:
            route.fulfill(path=MANAGER, content_type="text/javascript")
        elif "require" in route.request.url:
            static = share / "voila" / "templates" / "base" / "static"
            route.fulfill(path=static / "require.min.js", content_type="text/javascript")
        elif package:
            route.fulfill(path=share / "nbextensions" / package[1] / "index.js", content_type="text/javascript")
        else:
            route.abort()

    context = browser.new_context()
    context.route(lambda url: not url.startswith("file:"), answer)
    page = shown(context.new_page(), with_state, tmp_path)
    page.locator(".pnne-dashboard .bqplot").first.wait_for(timeout=120_000)
    page.locator(".pnne-dashboard .pnne-state").wait_for()
    assert page.locator(".pnne-kept img").count() == 1
    assert any("/npm/bqplot@" in url for url in asked)
    context.close()
