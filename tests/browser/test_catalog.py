"""Node types as a person meets them in JupyterLab: registered, inferred, refused, and put right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.pages import EditorPage

if TYPE_CHECKING:
    from tests.browser.conftest import OpenNotebook
    from tests.browser.jupyter import Notebook

GRAPH = """
import pnne_nb as pn, torch
graph = pn.NodeGraph("net")
last = graph.add("Input", name="x", shape=("N", 6))
graph.add("Linear", name="fc", out_features=3)
graph.add("CrossEntropyLoss", name="loss")
graph.add("Dataset", name="data")
graph.connect("x", "fc")
graph.connect("fc", "loss.input")
pn.GraphEditor(graph, height=620)
"""

REGISTER = """
@pn.register_node(category="Mine")
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None
"""


def _shown(notebook: Notebook, code: str) -> EditorPage:
    root = notebook.output_area(notebook.run(code)).get_by_test_id("pnne-editor")
    expect(root).to_have_attribute("data-version", re.compile(r"\d"))
    return EditorPage(notebook.page, root)


def test_types_values_and_kinds_as_one_draws(open_notebook: OpenNotebook) -> None:
    notebook = open_notebook(size=(1500, 1500))
    notebook.collapse_sidebar()
    editor = _shown(notebook, GRAPH)
    other = _shown(notebook, "pn.GraphEditor(pn.NodeGraph('other'), height=320)")

    # A type registered in a cell is in the palette of every open editor at once, with its properties.
    editor.search("Doubled")
    expect(editor.option("Doubled")).to_have_count(0)
    notebook.run(REGISTER)
    expect(editor.option("Doubled")).to_be_visible()
    other.add_by_click("Doubled", "twice")
    expect(other.field("twice", "factor")).to_have_attribute("placeholder", "2")

    # A size left "auto" is shown as what it was inferred to be, and written as a number.
    editor.search("")
    editor.select("fc")
    field = editor.field("fc", "in_features")
    expect(field).to_have_attribute("placeholder", "auto: 6")
    assert notebook.evaluate("graph['fc'].properties.get('in_features', 'auto')") == "auto"

    # A value that does not fit is said at the node, and put right with one click.
    field.fill("5")
    field.press("Enter")
    expect(editor.node("fc").locator(".pnne-card-message")).to_contain_text("in_features is 5")
    editor.root.get_by_role("complementary", name="Properties").get_by_role(
        "button", name="Set in_features to 6"
    ).click()
    expect(field).to_have_value("6")
    expect(editor.node("fc").locator(".pnne-card-message")).to_have_count(0)

    # The numbers of a tensor are typed in as a list.
    editor.select("loss")
    weights = editor.field("loss", "weight")
    weights.fill("1, 2, x")
    expect(editor.root.locator(".pnne-reason")).to_contain_text("a number, or a list of numbers")
    weights.fill("1, 2, 0.5")
    weights.press("Enter")
    assert notebook.wait_for("graph['loss'].properties.get('weight')") == (1.0, 2.0, 0.5)

    # Kinds that do not fit are refused with the reason.
    edges = editor.edges()
    editor.drag_between("data.dataset", "loss.target")
    expect(editor.root.locator(".pnne-toast")).to_contain_text(re.compile("gives a dataset.*takes a tensor"))
    assert editor.edges() == edges
