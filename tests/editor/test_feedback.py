"""What the editor says while one draws: what nodes and the model cost."""

from __future__ import annotations

from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor


def classifier() -> NodeGraph:
    """An Input, two layers and an Output."""
    graph = NodeGraph("classifier")
    last = graph.add("Input", name="x", shape=("N", 8))
    for name in ("hidden", "scores"):
        node = graph.add("Linear", name=name, in_features=8, out_features=8)
        graph.connect(last, node)
        last = node
    graph.connect(last, graph.add("Output", name="y"))
    graph.arrange()
    return graph


def test_costs_are_shown_for_the_model_and_for_the_selected_node(open_editor: OpenEditor) -> None:
    editor = open_editor(classifier())
    totals = editor.root.get_by_role("region", name="Costs of the model")
    expect(totals).to_contain_text("4,800 parameters, 18.8 KiB")
    expect(totals).to_contain_text("346 k mult-adds")
    expect(totals).to_contain_text("54 KiB activations per sample")
    editor.node("hidden").click()
    costs = editor.root.get_by_label("Costs", exact=True)
    expect(costs).to_contain_text("Parameters1,200 4.69 KiB")
    expect(costs).to_contain_text("Mult-adds86.4 k per sample")
    expect(costs).to_contain_text("Activations13.5 KiB per sample")
