"""Equal nodes in a row as one picture: a matter of the view, which all gestures see through."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor


def tower(height: int = 5) -> NodeGraph:
    """An input, equal layers in a row, one more activation, an output."""
    graph = NodeGraph("tower")
    layers = (("Linear", {"name": f"fc{place}", "in_features": 8, "out_features": 8}) for place in range(height))
    ends = ("Tanh", {"name": "tanh"}), ("Output", {"name": "y"})
    graph.chain(("Input", {"name": "x", "shape": ("N", 8)}), *layers, *ends)
    graph.arrange()
    return graph


def test_a_row_is_folded_and_unfolded_by_key_and_said(open_editor: OpenEditor) -> None:
    graph = tower()
    version = graph.version
    editor = open_editor(graph)
    editor.node("fc2").click()
    editor.page.keyboard.press("x")
    expect(editor.node("fc0")).to_contain_text("fc0 … fc4")
    expect(editor.node("fc0")).to_contain_text("×5")
    expect(editor.node("fc0")).to_have_attribute("aria-label", "fc0 to fc4, 5 equal nodes in a row, Linear, 8→8")
    for name in ("fc1", "fc4"):
        expect(editor.node(name)).to_have_count(0)
    expect(editor.root.locator("[data-edge]")).to_have_count(3)
    expect(editor.edge("fc4.output", "tanh.input")).to_be_attached()
    expect(editor.root.locator(".pnne-said")).to_contain_text("Folded fc0 to fc4, 5 nodes")
    editor.page.keyboard.press("x")
    expect(editor.node("fc3")).to_be_visible()
    assert graph.version == version, "folding is no change of the document"


def test_the_room_is_closed_and_opens_again(open_editor: OpenEditor) -> None:
    editor = open_editor(tower())
    before = editor.node("tanh").bounding_box()
    editor.button("Fold repeats").click()
    expect(editor.button("Fold repeats")).to_have_attribute("aria-pressed", "true")
    folded, head = editor.node("tanh").bounding_box(), editor.node("fc0").bounding_box()
    assert before is not None
    assert folded is not None
    assert head is not None
    assert 0 < folded["y"] - head["y"] < 130 < before["y"] - head["y"]
    editor.button("Fold repeats").click()
    expect(editor.node("fc1")).to_be_visible()
    assert editor.node("tanh").bounding_box() == before


def test_what_is_done_to_a_folded_card_is_done_to_the_whole_row(open_editor: OpenEditor) -> None:
    graph = tower()
    editor = open_editor(graph)
    editor.button("Fold repeats").click()
    places = {name: node.position for name, node in graph.nodes.items()}
    editor.node("fc0").click()
    expect(editor.root.locator(".pnne-properties h2")).to_have_text("5 nodes selected")
    editor.page.keyboard.press("ArrowRight")
    editor.page.wait_for_function("() => document.querySelector('.pnne-said').textContent.startsWith('Move')")
    editor.settle()
    for name, node in graph.nodes.items():
        (x, y), (after, level) = places[name] or (0, 0), node.position or (0, 0)
        assert (after - x, level - y) == ((8, 0) if name.startswith("fc") else (0, 0)), name
    editor.page.keyboard.press("Shift+Delete")
    editor.settle()
    edges = {tuple(edge) for edge in graph.edges}
    assert edges == {("x.output", "tanh.input"), ("tanh.output", "y.input")}


def test_a_link_from_a_folded_card_starts_at_its_last_node(open_editor: OpenEditor) -> None:
    graph = tower()
    graph.add("ReLU", name="other", x=400, y=400)
    editor = open_editor(graph)
    editor.button("Fold repeats").click()
    editor.drag(editor.port("fc4.output"), editor.port("other.input"))
    editor.settle()
    assert ("fc4.output", "other.input") in {tuple(edge) for edge in graph.edges}


def test_a_row_that_is_broken_stays_folded_as_far_as_it_goes(open_editor: OpenEditor) -> None:
    graph = tower()
    editor = open_editor(graph)
    editor.button("Fold repeats").click()
    expect(editor.node("fc0")).to_contain_text("×5")
    graph.set("fc3", out_features=4)
    editor.deliver()
    expect(editor.node("fc3")).to_be_visible()
    expect(editor.node("fc0")).to_contain_text("fc0 … fc2")


def test_what_is_folded_belongs_to_the_model_so_that_every_view_of_it_and_a_later_page_show_it(
    open_editor: OpenEditor,
) -> None:
    editor = open_editor(tower(), views=2)
    first, second = editor.root.nth(0), editor.root.nth(1)
    first.get_by_role("button", name="Fold repeats").click()
    expect(second.locator("[data-node=fc0]")).to_contain_text("fc0 … fc4")
    assert editor.page.evaluate("model.get('folded')") == ["fc0"]
    editor.page.evaluate("() => void openView(document.getElementById('views'))")
    expect(editor.root).to_have_count(3)
    expect(editor.root.nth(2).locator("[data-node=fc0]")).to_contain_text("fc0 … fc4")
    editor.page.evaluate("model.set('folded', [])")  # from Python
    for view in editor.root.all():
        expect(view.locator("[data-node=fc0]")).not_to_contain_text("…")


def mlp(depth: int = 100) -> NodeGraph:
    """A perceptron of layers and activations by turns, the first and the last of which have other sizes."""
    graph = NodeGraph("mlp")
    graph.chain(("Input", {"name": "x", "shape": ("N", 784)}))
    for place in range(depth):
        sizes = {"in_features": 256 if place else 784, "out_features": 256}
        graph.chain(("Linear", {"name": f"fc{place}", **sizes}), ("ReLU", {"name": f"relu{place}"}))
    graph.chain(("Linear", {"name": "head", "in_features": 256, "out_features": 10}), ("Output", {"name": "y"}))
    return graph


def test_a_pattern_of_many_layers_opens_as_one_card_which_x_unfolds(open_editor: OpenEditor) -> None:
    graph = mlp()
    editor = open_editor(graph)
    card = editor.node("fc1")
    expect(card).to_contain_text("fc1 … fc99")
    expect(card).to_contain_text("(Linear · ReLU)")
    expect(card).to_contain_text("×99")
    expect(card).to_contain_text("Linear 256→256")
    expect(card).to_have_attribute(
        "aria-label", "fc1 to relu99, 99 times the same 2 nodes in a row, Linear, Linear 256→256 · ReLU"
    )
    cards = [each.get_attribute("data-node") for each in editor.root.locator("[data-node]").all()]
    assert cards == ["x", "fc0", "relu0", "fc1", "head", "y"]
    expect(editor.edge("relu99.output", "head.input")).to_be_attached()
    card.click()
    expect(editor.root.locator(".pnne-properties h2")).to_have_text("198 nodes selected")
    editor.page.keyboard.press("x")
    expect(card).not_to_contain_text("×99")
    expect(editor.node("relu1")).to_have_count(1)
    assert {node.type for node in graph.nodes.values()} == {"Input", "Linear", "ReLU", "Output"}


def test_a_small_pattern_opens_unfolded_and_brings_out_what_is_selected(open_editor: OpenEditor) -> None:
    editor = open_editor(mlp(5))
    expect(editor.node("fc2")).to_be_visible()
    editor.button("Fold repeats").click()
    expect(editor.node("fc1")).to_contain_text("×4")
    expect(editor.node("fc2")).to_have_count(0)
    editor.page.evaluate("model.set('selection', ['relu3'])")  # from Python
    expect(editor.node("relu3")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_folded_pattern_is_looked_at_in_both_themes(open_editor: OpenEditor, theme: str) -> None:
    editor = open_editor(mlp(), theme=theme)
    editor.node("fc1").hover()
    expect(editor.button("Unfold fc1 to relu99")).to_be_visible()
    editor.screenshot(f"folded-pattern-{theme}")
