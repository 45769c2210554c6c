"""What the editor says while one draws: what nodes and the model cost, and how a training stands."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from playwright.sync_api import expect

from pnne_nb.errors import Diagnostic, Fix
from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.model.ops import AddNode
from pnne_nb.graph.model.origin import Origin
from pnne_nb.protocol.messages import LayerFault, LayerState, Training
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage, sent


def classifier() -> NodeGraph:
    """An Input, two layers and an Output."""
    graph = NodeGraph("classifier")
    layers = (("Linear", {"name": name, "in_features": 8, "out_features": 8}) for name in ("hidden", "scores"))
    graph.chain(("Input", {"name": "x", "shape": ("N", 8)}), *layers, ("Output", {"name": "y"}))
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


HIDDEN = LayerState(mean=0.1, std=0.93, zeros=0.48, weights=0.012, flow=0.001)
SCORES = LayerState(mean=0.0, std=1.5, flow=0.1, fault=LayerFault("dead", "100.0% of its outputs are 0."))


def show(editor: EditorPage, tick: int, **layers: LayerState) -> None:
    """Hand the page a picture of a training."""
    editor.kernel.show(Training(tick, 10 * tick, layers))
    editor.deliver()


def test_a_training_is_drawn_on_nodes_and_edges(open_editor: OpenEditor) -> None:
    editor = open_editor(classifier())
    show(editor, 1, hidden=HIDDEN, scores=SCORES)
    expect(editor.node("hidden")).to_contain_text("σ 0.93 · 48 % zero")
    weak, strong = editor.edge("hidden.output", "scores.input"), editor.edge("scores.output", "y.input")
    expect(weak).to_contain_text("∇ 0.001")
    expect(weak).to_contain_text("N×6×24×24")
    expect(strong).to_contain_text("∇ 0.1")
    # A larger gradient is a thicker edge, once both have grown to their widths.
    editor.page.wait_for_function(
        "(paths) => { const [weak, strong] = paths.map((path) => parseFloat(getComputedStyle(path).strokeWidth));"
        " return weak < strong; }",
        arg=[edge.locator(".react-flow__edge-path").element_handle() for edge in (weak, strong)],
    )
    expect(editor.edge("x.output", "hidden.input")).not_to_contain_text("∇")
    expect(editor.node("scores").get_by_role("img", name="dead: 100.0% of its outputs are 0.")).to_be_visible()
    expect(editor.root.locator(".pnne-said")).to_have_text("scores: dead")
    legend = editor.root.get_by_role("region", name="Live training")
    expect(legend).to_contain_text("step 10")
    expect(legend).to_contain_text("∇ gradient norm 0.0010.1")
    legend.get_by_role("button", name="1 dead").click()
    expect(editor.root.get_by_label("Name", exact=True)).to_have_value("scores")


def test_a_picture_is_acknowledged_once_it_is_painted(open_editor: OpenEditor) -> None:
    editor = open_editor(classifier())
    for tick in (1, 2):
        show(editor, tick, hidden=HIDDEN)
        editor.page.wait_for_function("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")
    assert [message["tick"] for message in sent(editor.kernel, "painted")] == [1, 2]


def test_the_training_is_hidden_by_the_person_and_by_its_end(open_editor: OpenEditor) -> None:
    editor = open_editor(classifier())
    legend = editor.root.get_by_role("region", name="Live training")
    by_hand: Callable[[], None] = legend.get_by_role("button", name="Hide the training").click
    by_python: Callable[[], None] = partial(show, editor, 3)
    for hide in (by_hand, by_python):
        show(editor, 2, hidden=HIDDEN)
        expect(legend).to_be_visible()
        hide()
        expect(legend).to_have_count(0)
        expect(editor.node("hidden")).to_contain_text("Linear")
        expect(editor.root.locator(".pnne-live")).to_have_count(0)


def test_what_is_not_finite_is_said_in_words(open_editor: OpenEditor) -> None:
    editor = open_editor(classifier())
    nan = LayerState(fault=LayerFault("notFinite", "Its output has NaN or infinite values."))
    show(editor, 1, hidden=nan, scores=HIDDEN)
    expect(editor.node("hidden").get_by_role("img", name="NaN: Its output has NaN")).to_be_visible()
    expect(editor.edge("hidden.output", "scores.input")).to_contain_text("∇ NaN")


def test_a_connection_says_what_it_would_do_before_it_is_made(open_editor: OpenEditor) -> None:
    graph = classifier()
    graph.disconnect("hidden", "scores")
    editor = open_editor(graph)
    fix = Fix("scores", "in_features", 6, "Set in_features to 6")
    editor.drag(editor.port("hidden.output"), editor.port("scores.input"), drop=False)
    ghost = editor.root.locator(".pnne-ghost-preview")
    expect(ghost).to_have_text("scores N×6×24×24")
    editor.page.mouse.up()
    editor.settle()
    graph.disconnect("hidden", "scores")
    editor.deliver()
    editor.kernel.foreseen = [Diagnostic("shape-mismatch", "in_features is 8, not 6.", node="scores", fix=fix)]
    editor.drag(editor.port("hidden.output"), editor.node("scores"), drop=False)
    expect(ghost).to_have_text("in_features is 8, not 6. Fix: Set in_features to 6")
    assert sent(editor.kernel, "getPreview")[-1]["target"] == "scores.input", "on a node, the port that fits is meant"
    editor.page.mouse.up()
    expect(ghost).to_have_count(0)


def test_nodes_of_an_imported_model_say_how_they_relate_to_the_original(open_editor: OpenEditor) -> None:
    graph = NodeGraph("imported")
    reason = "its forward depends on the values of its inputs"
    graph.apply(
        [
            AddNode("fc", "Linear", {"in_features": 4, "out_features": 4}, origin=Origin("equal", member=0)),
            AddNode("odd", "Module", {}, origin=Origin("opaque", reason, member=1)),
            AddNode("drawn", "ReLU", {}),
        ]
    )
    graph.arrange()
    editor = open_editor(graph)
    expect(editor.node("fc").get_by_role("img", name="gave the same as the original")).to_be_visible()
    opaque = editor.node("odd").get_by_role("img", name=f"Imported as one opaque node: {reason}")
    expect(opaque).to_have_attribute("title", f"Imported as one opaque node: {reason}")
    expect(editor.node("odd")).to_have_attribute("aria-label", re.compile(", opaque"))
    expect(editor.node("drawn").locator(".pnne-origin")).to_have_count(0)
    editor.node("odd").click()
    expect(editor.root.get_by_role("complementary", name="Properties")).to_contain_text(reason)
    graph.set("fc", out_features=5)
    editor.deliver()
    expect(editor.node("fc").get_by_role("img", name="changed since")).to_be_visible()
    graph.undo()
    editor.deliver()
    expect(editor.node("fc").get_by_role("img", name="gave the same as the original")).to_be_visible()


BESIDE = """() => {
    const [room, source, node] = [".pnne-canvas", ".pnne-source", "[data-node]"]
        .map((selector) => document.querySelector(selector).getBoundingClientRect());
    const middle = (box) => box.left + box.width / 2;
    return room.right <= source.left + 1 && Math.abs(middle(node) - middle(room)) < 30;
}"""
"""Whether the source stands beside the graph, and that in the middle of what is left to it."""


def test_the_source_is_saved_as_a_file(open_editor: OpenEditor) -> None:
    editor = open_editor(classifier())
    editor.button("Code").click()
    source = editor.root.get_by_role("region", name="Source")
    expect(source).to_contain_text("class Net")
    editor.page.wait_for_function(BESIDE)
    with editor.page.expect_download() as caught:
        source.get_by_role("button", name="Save").click()
    assert caught.value.suggested_filename == "classifier.py"
    assert "class Net" in caught.value.path().read_text()
