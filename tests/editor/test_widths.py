"""Cells of every width, graphs of every extent: what an opening view shows."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage
from tests.graph.render.test_model_pictures import MODELS

NARROW = (532, 760)


def chain(length: int, dx: float, dy: float) -> NodeGraph:
    """Nodes in a row that runs far to one side."""
    graph = NodeGraph("chain")
    graph.add("Input", name="x", shape=("N", 8), x=0, y=0)
    before = "x"
    for place in range(1, length):
        graph.add("ReLU", name=f"r{place}", x=dx * place, y=dy * place)
        graph.connect(before, f"r{place}")
        before = f"r{place}"
    return graph


def test_a_narrow_cell_shows_the_graph_and_one_panel_at_a_time_over_it(open_editor: OpenEditor) -> None:
    editor = open_editor(chain(4, 0, 120), size=NARROW)
    palette, properties = editor.root.locator(".pnne-palette"), editor.root.locator(".pnne-properties")
    expect(editor.node("x")).to_be_in_viewport(ratio=1)
    expect(palette).to_have_count(0)
    expect(properties).to_have_count(0)
    editor.button("Add node").click()
    expect(editor.root.get_by_role("searchbox")).to_be_focused()
    editor.button("Properties").click()
    expect(properties).to_be_visible()
    expect(palette).to_have_count(0)
    editor.root.locator(".react-flow__pane").click(position={"x": 20, "y": 400})
    expect(properties).to_have_count(0)
    right = editor.root.evaluate("root => root.getBoundingClientRect().right")
    for name in ("Undo", "Fit view", "Full screen", "Properties"):
        box = editor.button(name).bounding_box()
        assert box is not None, name
        assert box["x"] + box["width"] <= right, f"{name} is cut off"


def test_panels_come_and_go_with_the_width(open_editor: OpenEditor) -> None:
    editor = open_editor(chain(4, 0, 120))
    expect(editor.root.locator(".pnne-palette")).to_be_visible()
    editor.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    expect(editor.root.locator(".pnne-palette")).to_have_count(0)
    editor.page.set_viewport_size({"width": 1180, "height": 760})
    expect(editor.root.locator(".pnne-palette")).to_be_visible()
    expect(editor.root.locator(".pnne-properties")).to_be_visible()


def test_the_source_takes_the_palette_s_place_where_both_leave_no_graph(open_editor: OpenEditor) -> None:
    editor = open_editor(chain(4, 0, 120), size=(900, 760))
    palette, source = editor.root.locator(".pnne-palette"), editor.root.get_by_role("region", name="Source")
    editor.button("Code").click()
    expect(source).to_be_visible()
    expect(palette).to_have_count(0)
    graph = editor.root.locator(".pnne-canvas").bounding_box()
    assert graph is not None
    assert graph["width"] >= 240
    source.get_by_role("button", name="Close").click()
    expect(palette).to_be_visible()
    editor.button("Code").click()
    editor.button("Add node").click()
    expect(editor.root.get_by_role("searchbox")).to_be_focused()
    expect(source).to_have_count(0)
    editor.button("Code").click()
    # A page of 1,300 leaves the editor less than that, and the graph less than a card and its neighbours need.
    editor.page.set_viewport_size({"width": 1300, "height": 760})
    expect(palette).to_have_count(0)
    editor.page.set_viewport_size({"width": 1340, "height": 760})
    expect(palette).to_be_visible()
    expect(source).to_be_visible()
    graph = editor.root.locator(".pnne-canvas").bounding_box()
    assert graph is not None
    assert graph["width"] >= 300


def test_the_little_map_is_there_while_a_part_of_the_graph_is_out_of_view(open_editor: OpenEditor) -> None:
    editor = open_editor(chain(30, 0, 120))
    little = editor.root.get_by_role("img", name="Overview of the graph")
    expect(little).to_be_visible()
    box = little.bounding_box()
    assert box is not None
    assert box["width"] < 60, "no wider than a chain needs"
    editor.button("Fit view").click()
    expect(little).to_be_hidden()
    editor.root.locator(".pnne-canvas").press("+")
    expect(little).to_be_visible()


@pytest.mark.parametrize(("dx", "dy"), [(90, 120), (-90, 120), (240, 0)])
def test_a_view_opens_where_a_large_graph_begins(open_editor: OpenEditor, dx: float, dy: float) -> None:
    editor = open_editor(chain(200, dx, dy))
    expect(editor.node("x")).to_be_in_viewport(ratio=1)
    editor.button("Fit view").click()
    expect(editor.root.locator(".pnne-far")).to_be_visible()


def zoom_of(editor: EditorPage) -> int:
    return int(editor.root.locator(".pnne-zoom").inner_text().removesuffix(" %"))


def test_ten_nodes_open_as_whole_cards_in_columns_and_sixty_with_all_their_names(open_editor: OpenEditor) -> None:
    graph = NodeGraph("digits")
    graph.chain(("Input", {"shape": ("N", 1, 8, 8)}), *["Conv2d", "ReLU"] * 3, "AdaptiveAvgPool2d", "Linear", "Output")
    editor = open_editor(graph, size=(1320, 760))
    editor.settle()
    assert zoom_of(editor) >= 90
    assert len({round(node.position[0]) for node in graph.nodes.values() if node.position}) > 1
    for name in graph.nodes:
        expect(editor.node(name)).to_be_in_viewport(ratio=0.99)
    editor = open_editor(MODELS["gpt2"](), size=(1320, 760))
    editor.settle()
    assert 30 <= zoom_of(editor) < 50
    for name in editor.graph.nodes:
        expect(editor.node(name)).to_be_in_viewport(ratio=0.99)


def test_a_template_fills_the_cell_in_columns_as_one_edit(open_editor: OpenEditor) -> None:
    editor = open_editor(NodeGraph("mine"), size=(1320, 760))
    editor.root.locator(".pnne-starts").get_by_role("button", name="LeNet").click()
    expect(editor.node("fc3")).to_be_in_viewport(ratio=1)
    editor.settle()
    editor.page.wait_for_function("() => parseInt(document.querySelector('.pnne-zoom').textContent) > 80")
    editor.graph.undo()
    assert len(editor.graph) == 0


def test_a_screen_that_shows_many_hundred_cards_shows_them_as_one_picture(open_editor: OpenEditor) -> None:
    graph = NodeGraph("wide")
    with graph.transaction("Draw"):
        for place in range(800):
            graph.add("ReLU", name=f"n{place}")
            graph.move(f"n{place}", x=210.0 * (place % 40), y=110.0 * (place // 40))
    editor = open_editor(graph, size=(3840, 2160))
    editor.page.evaluate("() => document.querySelector('.pnne-editor').style.height = '2100px'")
    editor.button("Fit view").click()
    expect(editor.root.locator(".pnne-far")).to_be_visible()
    expect(editor.root.locator(".pnne-zoom")).to_have_text(re.compile(r"^(3[5-9]|4\d) %$"))
    expect(editor.root.locator("[data-node]")).to_have_count(0)
    editor.root.locator(".pnne-canvas").press("0")
    expect(editor.root.locator(".pnne-far")).to_have_count(0)


def test_what_has_no_places_is_arranged_when_it_is_entered(open_editor: OpenEditor) -> None:
    # As what from_module makes: no node has a place, at any depth.
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    for name in ("fc", "relu", "sum"):
        graph.add({"fc": "Linear", "relu": "ReLU", "sum": "add"}[name], name=name)
    graph.set("fc", out_features=8)
    for source, target in (("x", "fc"), ("fc", "relu"), ("relu", "sum.input"), ("x", "sum.other")):
        graph.connect(source, target)
    graph.group(["fc", "relu", "sum"], name="block")
    for name in ("input", "fc", "relu", "sum"):
        graph.move(f"block.{name}")
    graph.arrange()
    editor = open_editor(graph)
    editor.node("block").dblclick()
    expect(editor.node("block.fc")).to_be_visible()
    editor.page.wait_for_function("() => document.querySelector('.pnne-said').textContent === 'Arrange'")
    assert all(graph[f"block.{name}"].position is not None for name in ("input", "fc", "relu", "sum"))
    skipped = editor.edge("block.input.output", "block.sum.other").locator("path").first
    box, card = skipped.bounding_box(), editor.node("block.fc").bounding_box()
    assert box is not None
    assert card is not None
    outside = box["x"] < card["x"] or box["x"] + box["width"] > card["x"] + card["width"]
    assert outside, "the edge runs behind the node between its ends"


CUT = """() => [...document.querySelectorAll(".pnne-card-name, .pnne-card-type, .pnne-card-summary > div")]
  .filter((text) => text.scrollWidth > text.clientWidth && text.clientWidth > 0)
  .map((text) => text.textContent)"""
CROWDED = """() => {
  const boxes = [...document.querySelectorAll(".pnne-port-label")].map((label) => label.getBoundingClientRect());
  return boxes.filter((a, place) => boxes.some((b, other) =>
    place !== other && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length;
}"""


def test_names_types_expressions_and_ports_are_whole_on_a_narrow_or_a_wide_card(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8, 4, 4), x=0, y=0)
    graph.add("AdaptiveAvgPool2d", name="pool", output_size=1, x=0, y=120)
    graph.add("ConvTranspose2d", name="up", in_channels=8, out_channels=8, kernel_size=2, x=0, y=240)
    graph.add("cat", name="visual_embeddings", dim=1, x=0, y=380)
    graph.sizes["hidden_size"] = 64
    graph.add("view", name="heads", size=(16, "hidden_size//8", 8, 8), x=300, y=120)
    for source, target in (("x", "pool"), ("pool", "up"), ("x", "heads")):
        graph.connect(source, target)
    for place, name in enumerate(("x", "pool", "up")):
        graph.connect(name, f"visual_embeddings.tensors_{place}")
    editor = open_editor(graph)
    editor.node("x").focus()
    widths = {name: editor.node(name).evaluate("card => card.offsetWidth") for name in graph.nodes}
    assert widths == {"x": 176, "pool": 224, "up": 176, "visual_embeddings": 286, "heads": 224}
    for key, zoom in (("0", "100 %"), ("-", "80 %")):
        editor.page.keyboard.press(key)
        expect(editor.button(f"Zoom {zoom}")).to_be_visible()
        editor.rest()
        assert editor.page.evaluate(CUT) == []
        assert editor.page.evaluate(CROWDED) == 0
