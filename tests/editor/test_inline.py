"""Values edited on the node's own card: with the panel's fields, checks and reasons, and only where one edits."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor, chain
from tests.editor.page import EditorPage


@pytest.fixture
def editor(open_editor: OpenEditor) -> EditorPage:
    """A convolution below an input, and a layer whose values are all at their defaults."""
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 1, 28, 28))
    graph.add("Conv2d", name="conv1", out_channels=6, kernel_size=5)
    graph.add("Dropout", name="drop")
    graph.connect("x", "conv1")
    for place, name in enumerate(graph.nodes):
        graph.move(name, 0, (0, 120, 360)[place])
    return open_editor(graph)


def value(editor: EditorPage, node: str, name: str) -> Locator:
    """The text of a value on a card that is pointed at."""
    editor.node(node).hover()
    return editor.node(node).locator(f".pnne-value[title={name}]")


def inline(editor: EditorPage, node: str, name: str) -> Locator:
    """A field on a card."""
    return editor.node(node).locator(f'[data-property="{node}.{name}"]')


def test_a_value_is_set_where_it_is_read(editor: EditorPage) -> None:
    version = editor.graph.version
    before = editor.node("conv1").bounding_box()
    value(editor, "conv1", "out_channels").click()
    field = inline(editor, "conv1", "out_channels")
    expect(field).to_be_focused()
    expect(field).to_have_value("6")
    expect(editor.root.locator(".react-flow__node.selected [data-node=conv1]")).to_be_visible()
    editor.page.keyboard.type("16")  # what was there is selected
    editor.page.keyboard.press("Enter")
    expect(editor.node("conv1").locator(".pnne-inline")).to_have_count(0)
    expect(editor.node("conv1").locator(".pnne-card-summary")).to_have_text("auto→16 · 5×5")
    expect(editor.node("conv1")).to_be_focused()
    editor.settle()
    assert editor.graph["conv1"].properties["out_channels"] == 16
    assert editor.graph.undo_label == "Set conv1.out_channels"
    assert editor.graph.version == version + 1, "one edit, one step back"
    assert editor.node("conv1").bounding_box() == before


def test_the_few_that_matter_are_there_and_the_panel_has_all(editor: EditorPage) -> None:
    value(editor, "conv1", "kernel_size").click()
    fields = editor.node("conv1").locator(".pnne-inline [data-property]")
    names = ["in_channels", "out_channels", "kernel_size", "stride"]
    assert fields.evaluate_all("all => all.map((field) => field.dataset.property)") == [
        f"conv1.{name}" for name in names
    ]
    expect(inline(editor, "conv1", "kernel_size")).to_be_focused()
    editor.page.keyboard.press("Shift+Tab")
    editor.page.keyboard.press("Shift+Tab")
    expect(inline(editor, "conv1", "out_channels")).to_be_focused()
    editor.page.keyboard.type("12")
    editor.button("Properties").click()  # leaving sets what was typed, as in the panel
    expect(fields).to_have_count(0)
    editor.settle()
    assert editor.graph["conv1"].properties["out_channels"] == 12
    value(editor, "conv1", "kernel_size").click()
    editor.node("conv1").get_by_role("button", name="All 15 properties").click()
    expect(editor.root.get_by_role("complementary", name="Properties")).to_be_visible()


@pytest.mark.parametrize("text", ["0", "many"])
def test_what_does_not_fit_is_refused_in_the_panels_words(editor: EditorPage, text: str) -> None:
    version = editor.graph.version
    value(editor, "conv1", "out_channels").click()
    field = inline(editor, "conv1", "out_channels")
    field.fill(text)
    reason = editor.node("conv1").get_by_role("alert")
    expect(reason).to_contain_text("It must be a whole number ≥ 1.")
    field.press("Enter")
    expect(field).to_be_focused()
    editor.node("drop").hover()  # elsewhere, it stays to be seen
    expect(reason).to_be_visible()
    field.press("Escape")
    expect(field).to_have_count(0)
    expect(editor.node("conv1")).to_be_focused()
    expect(editor.node("conv1").locator(".pnne-card-summary")).to_contain_text("→6")
    assert editor.graph.version == version


def test_what_is_left_invalid_stays_with_its_reason_until_another_node_is_meant(editor: EditorPage) -> None:
    value(editor, "conv1", "out_channels").click()
    inline(editor, "conv1", "out_channels").fill("many")
    editor.root.get_by_role("searchbox").focus()
    expect(editor.node("conv1").get_by_role("alert")).to_be_visible()
    editor.node("drop").click()
    expect(editor.node("conv1").get_by_role("alert")).to_have_count(0)
    editor.node("conv1").click()
    expect(editor.node("conv1").locator(".pnne-inline")).to_have_count(0)


def test_keys_alone_open_it_walk_through_it_and_leave_it(editor: EditorPage) -> None:
    editor.root.get_by_role("region", name="Graph").focus()
    press = editor.page.keyboard.press
    press("ArrowDown")
    press("Alt+ArrowDown")
    expect(editor.node("conv1")).to_be_focused()
    press("Tab")
    expect(editor.node("conv1").get_by_role("button", name="Edit in_channels, auto")).to_be_focused()
    press("Tab")
    press("Enter")
    expect(inline(editor, "conv1", "out_channels")).to_be_focused()
    press("ArrowUp")
    press("Enter")
    expect(editor.node("conv1")).to_be_focused()
    editor.settle()
    assert editor.graph["conv1"].properties["out_channels"] == 7
    # A card without a line has values too, and a checkbox ends with Enter as a text does.
    press("Alt+ArrowDown")
    expect(editor.node("drop")).to_be_focused()
    press("v")
    expect(inline(editor, "drop", "p")).to_be_focused()
    press("Tab")
    expect(inline(editor, "drop", "inplace")).to_be_focused()
    press("Space")
    press("Enter")
    expect(editor.node("drop")).to_be_focused()
    editor.settle()
    assert dict(editor.graph["drop"].properties) == {"inplace": True}
    press("Delete")
    expect(editor.node("drop")).to_have_count(0)


def test_a_card_without_a_line_has_a_button(editor: EditorPage) -> None:
    editor.node("drop").hover()
    editor.button("Edit drop").click()
    field = inline(editor, "drop", "p")
    expect(field).to_be_focused()
    field.fill("0.1")
    field.press("Enter")
    expect(editor.node("drop").locator(".pnne-card-summary")).to_have_text("p 0.1")
    expect(editor.node("conv1").get_by_role("button", name="Edit conv1")).to_have_count(0)


def test_a_drag_by_a_value_moves_the_node_and_one_in_the_form_does_not(editor: EditorPage) -> None:
    place = editor.graph["conv1"].position
    start = value(editor, "conv1", "out_channels").bounding_box()
    assert start is not None
    editor.drag_by(value(editor, "conv1", "out_channels"), start["x"] + 90, start["y"] + 10)
    expect(editor.root.locator(".pnne-said")).to_have_text("Move conv1")
    expect(editor.node("conv1").locator(".pnne-inline")).to_have_count(0)
    editor.settle()
    moved = editor.graph["conv1"].position
    assert moved != place
    value(editor, "conv1", "out_channels").click()
    label = editor.node("conv1").locator(".pnne-inline .pnne-field-label").first
    box = label.bounding_box()
    assert box is not None
    view = "() => document.querySelector('.react-flow__viewport').style.transform"
    before = editor.page.evaluate(view)
    editor.drag_by(label, box["x"] - 120, box["y"] - 60)
    label.hover()
    editor.page.mouse.wheel(0, 40)
    editor.page.wait_for_function("() => window.scrollY > 0")  # the page's, not the canvas's
    expect(editor.node("conv1").locator(".pnne-inline")).to_be_visible()
    assert editor.page.evaluate(view) == before
    editor.settle()
    assert editor.graph["conv1"].position == moved


def test_python_has_the_last_word(editor: EditorPage) -> None:
    value(editor, "conv1", "out_channels").click()
    editor.graph.rename("conv1", "stem")  # the browser has not been told yet
    inline(editor, "conv1", "out_channels").fill("9")
    editor.page.keyboard.press("Enter")
    expect(editor.toast).to_contain_text("conv1")
    expect(editor.node("stem").locator(".pnne-card-summary")).to_have_text("auto→6 · 5×5")


def test_all_of_a_folded_row_are_set_at_once(open_editor: OpenEditor) -> None:
    graph = NodeGraph("row")
    graph.add("Input", name="x", shape=("N", 8))
    for place, source in enumerate(["x", "fc0", "fc1"]):
        graph.add("Linear", name=f"fc{place}", in_features=8, out_features=8)
        graph.connect(source, f"fc{place}")
    graph.arrange()
    editor = open_editor(graph)
    editor.button("Fold repeats").click()
    value(editor, "fc0", "out_features").click()
    field = inline(editor, "fc0", "bias")
    field.click()
    field.press("Escape")
    expect(editor.node("fc0")).to_contain_text("no bias")
    editor.settle()
    assert [graph[name].properties.get("bias") for name in ("fc0", "fc1", "fc2")] == [False] * 3
    assert graph.undo_label == "Set 3 nodes.bias"


def test_what_is_required_is_missed_on_the_card(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.add("Conv2d", name="conv1", x=0, y=0)
    editor = open_editor(graph)
    expect(editor.node("conv1").locator(".pnne-card-summary")).to_have_text("auto→? · kernel ?")
    value(editor, "conv1", "kernel_size").click()
    editor.page.keyboard.type("3")
    editor.page.keyboard.press("Enter")
    expect(editor.node("conv1").locator(".pnne-card-summary")).to_have_text("auto→? · 3×3")


def test_only_text_stands_where_nobody_edits(open_editor: OpenEditor) -> None:
    editor = open_editor(chain(120))
    editor.page.mouse.move(5, 5)
    expect(editor.root.locator(".pnne-value, .pnne-inline")).to_have_count(0)
    editor.node("fc1").hover()
    expect(editor.root.locator(".pnne-value")).to_have_count(2)
    editor.page.evaluate("model.set('read_only', true)")
    expect(editor.root.locator(".pnne-value")).to_have_count(0)
    editor.node("fc1").click()
    editor.page.keyboard.press("v")
    expect(editor.toast).to_contain_text("read-only")
    expect(editor.root.locator(".pnne-inline")).to_have_count(0)


def test_far_away_it_comes_nearer_first(open_editor: OpenEditor) -> None:
    editor = open_editor(chain(120))
    editor.page.emulate_media(reduced_motion="reduce")
    try:
        editor.node("fc1").click()
        for _ in range(5):
            editor.page.keyboard.press("-")
        zoom = "() => new DOMMatrix(document.querySelector('.react-flow__viewport').style.transform).a"
        editor.page.wait_for_function(f"() => ({zoom})() < 0.45")
        editor.page.keyboard.press("v")
        expect(inline(editor, "fc1", "out_features")).to_be_visible()
        editor.page.wait_for_function(f"() => ({zoom})() > 0.6")
    finally:
        editor.page.emulate_media(reduced_motion="no-preference")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_looked_at_in_both_themes(editor: EditorPage, open_editor: OpenEditor, theme: str) -> None:
    editor = open_editor(editor.graph, theme=theme)
    value(editor, "conv1", "out_channels").click()
    inline(editor, "conv1", "kernel_size").fill("5, 5, 5")
    expect(editor.node("conv1").get_by_role("alert")).to_be_visible()
    editor.screenshot(f"editor-inline-{theme}")
