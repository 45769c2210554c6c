"""The picture under an editor: out of the way while the editor lives, there when the kernel is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.browser.conftest import OpenNotebook

pytestmark = pytest.mark.browser

DRAW = """import pnne_nb as pn
graph = pn.NodeGraph("net")
graph.add("Input", name="x", shape=("N", 4))
graph.add("Linear", name="fc1", in_features=4, out_features=3)
graph.connect("x", "fc1")
pn.GraphEditor(graph)"""


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
    kept.locator("img").wait_for(state="visible")
    notebook.page.wait_for_function("() => document.querySelector('.pnne-kept img').naturalWidth > 100")
    notebook.screenshot("kept-picture", area)
