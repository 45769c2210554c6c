"""The pictures under widgets: out of the way while a widget lives, there when the kernel is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.browser.jupyter import Theme

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

DRAW = """import pnne_nb as pn
graph = pn.NodeGraph("net")
graph.add("Input", name="x", shape=("N", 4))
graph.add("Linear", name="fc1", in_features=4, out_features=3)
graph.connect("x", "fc1")
pn.GraphEditor(graph)"""

TRAIN = """import torch
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
x = torch.randn(60, 4)
engine = pn.TrainingEngine(net, (x, torch.randint(3, (60,))), epochs=3, batch_size=20, loss="CrossEntropyLoss")
pn.TrainingDashboard(engine)"""

EXPLORE = "pn.ModuleExplorer(net, args=x)"

PLOT = """inspector = pn.Inspector(net)
inspector.watch("1")
inspector.run_inspection(x)
inspector.plot("1")"""


def image_of(area: Locator) -> Locator:
    """The picture of a cell, seen and loaded."""
    image = area.locator(".pnne-kept img")
    image.wait_for(state="visible")
    image.page.wait_for_function("e => e.complete && e.naturalWidth > 100", arg=image.element_handle())
    return image


def test_it_is_seen_only_when_the_editor_is_not(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook()
    index = notebook.run(DRAW)
    area = notebook.output_area(index)
    area.locator("[data-node=fc1]").wait_for()
    kept = area.locator(".pnne-kept")
    kept.wait_for(state="attached")
    assert not kept.is_visible()
    html = "".join(notebook.outputs(index)[1]["data"]["text/html"])
    assert "<li>fc1, Linear, 4→3, from x.output (N×4)</li>" in html
    # The editor goes as it goes when a notebook is opened without its kernel.
    notebook.page.evaluate("document.querySelector('.pnne-editor').remove()")
    image_of(area)
    notebook.screenshot("kept-picture", area)


def test_a_notebook_that_is_opened_again_shows_what_was_there_and_no_missing_widget(
    open_notebook: OpenNotebook,
) -> None:
    notebook = open_notebook()
    live = {
        notebook.run(DRAW): ".pnne-editor",
        notebook.run(TRAIN): ".pnne-dashboard",
        notebook.run(EXPLORE): ".pnne-explorer",
        notebook.run(PLOT): ".pnne-figure",
    }
    for index, widget in live.items():
        area = notebook.output_area(index)
        area.locator(widget).first.wait_for()
        assert not area.locator(".pnne-kept").is_visible()
    notebook.run("engine.start(); engine.wait()")
    notebook.wait_until(
        lambda: "Training finished" in str(notebook.outputs(1)[1]["data"]), "The picture did not follow the training."
    )
    notebook.save()
    notebook.end_kernel()
    again = open_notebook(path=notebook.path)
    for index in live:
        area = again.output_area(index)
        image_of(area)
        for missing in ("Loading widget", "Error displaying widget", "model not found"):
            assert missing not in area.inner_text()
        again.screenshot(f"kept-picture-{index}", area)
    # The picture follows JupyterLab's theme, not that of the system.
    themes: tuple[tuple[Theme, bool], ...] = (("light", True), ("dark", False))
    for theme, bright in themes:
        again.set_theme(theme)
        path = again.screenshot(f"kept-picture-{theme}", image_of(again.output_area(1)))
        assert (Image.open(path).convert("L").tobytes()[0] > 128) == bright
