"""The property panel: generated from the catalogue, validating as one types."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from pnne_nb.errors import Diagnostic, Fix
from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage


@pytest.fixture
def editor(open_editor: OpenEditor) -> EditorPage:
    """A convolution, selected."""
    graph = NodeGraph("net")
    graph.add("Conv2d", name="conv1", out_channels=6, kernel_size=5)
    graph.move("conv1", 0, 0)
    editor = open_editor(graph)
    editor.node("conv1").click()
    return editor


def test_a_number_is_set_with_enter_and_shown_on_the_node(editor: EditorPage) -> None:
    field = editor.field("conv1", "out_channels")
    expect(field).to_have_value("6")
    field.fill("16")
    field.press("Enter")
    expect(editor.node("conv1")).to_contain_text("→16")
    editor.settle()
    assert editor.graph["conv1"].properties["out_channels"] == 16
    assert editor.graph.undo_label == "Set conv1.out_channels"


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("kernel_size", "3, 5", (3, 5)),
        ("kernel_size", "(3, 5)", (3, 5)),
        ("padding", "same", "same"),
        ("in_channels", "3", 3),
        ("stride", "2", 2),
    ],
)
def test_text_is_read_as_the_property_wants_it(editor: EditorPage, name: str, text: str, value: object) -> None:
    field = editor.field("conv1", name)
    field.fill(text)
    field.press("Tab")
    editor.settle()
    expect(editor.root.locator(".pnne-field.pnne-set", has_text=name)).to_be_visible()
    editor.settle()
    assert editor.graph["conv1"].properties[name] == value


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("out_channels", "0", "It must be a whole number ≥ 1."),
        ("out_channels", "many", "It must be a whole number ≥ 1."),
        ("kernel_size", "3, 5, 7", "a tuple of 2 values, each a whole number ≥ 1"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_while_typing(
    editor: EditorPage, name: str, text: str, reason: str
) -> None:
    version = editor.graph.version
    field = editor.field("conv1", name)
    field.fill(text)
    expect(editor.root.get_by_role("alert").filter(has_text=reason)).to_be_visible()
    expect(field).to_have_attribute("aria-invalid", "true")
    field.press("Escape")
    expect(field).to_have_attribute("aria-invalid", "false")
    assert editor.graph.version == version


def test_a_name_that_cannot_be_stays_with_its_reason_until_another_is_typed(editor: EditorPage) -> None:
    editor.graph.add("ReLU", name="x")
    editor.deliver()
    name = editor.root.get_by_label("Name", exact=True)
    name.fill("x")
    name.press("Enter")
    expect(name).to_have_value("x")
    reason = "There is already a node x; x2 is free."
    expect(editor.root.get_by_role("alert").filter(has_text=reason)).to_be_visible()
    # Whoever leaves the field is told what has become of it.
    editor.root.get_by_role("searchbox").click()
    expect(editor.toast).to_have_text(re.compile(f"conv1 keeps its name. {reason}"))
    expect(name).to_have_value("conv1")
    name.fill("stem")
    name.press("Enter")
    expect(editor.node("stem")).to_be_visible()


def test_after_a_new_name_the_keyboard_stays_where_somebody_was_quicker(editor: EditorPage) -> None:
    name = editor.root.get_by_label("Name", exact=True)
    name.fill("first")
    name.press("Enter")
    expect(name).to_have_value("first")
    expect(name).to_be_focused()
    # A busy page draws its next frame late.
    editor.page.evaluate("""() => {
      window.frame = window.requestAnimationFrame;
      window.late = [];
      window.requestAnimationFrame = (run) => window.late.push(run);
    }""")
    name.fill("second")
    name.press("Enter")
    field = editor.field("second", "kernel_size")
    field.focus()
    editor.page.evaluate(
        "() => { window.requestAnimationFrame = window.frame; for (const run of window.late) run(0); }"
    )
    expect(field).to_be_focused()


def test_booleans_and_choices_have_controls_of_their_own(editor: EditorPage) -> None:
    bias = editor.field("conv1", "bias")
    expect(bias).to_be_checked()
    bias.uncheck()
    mode = editor.field("conv1", "padding_mode")
    mode.select_option("reflect")
    expect(mode).to_have_value("reflect")
    expect(editor.node("conv1")).to_contain_text("no bias")
    editor.settle()
    assert dict(editor.graph["conv1"].properties) == {
        "out_channels": 6, "kernel_size": 5, "bias": False, "padding_mode": "reflect",
    }  # fmt: skip


def test_a_value_is_reset_to_its_default(editor: EditorPage) -> None:
    field = editor.field("conv1", "stride")
    expect(field).to_have_attribute("placeholder", "1")
    expect(field).to_have_attribute("title", re.compile("Stride of the convolution"))
    field.fill("2")
    field.press("Enter")
    reset = editor.button("Reset stride")
    reset.click()
    expect(field).to_have_value("")
    editor.settle()
    assert "stride" not in editor.graph["conv1"].properties


def test_a_node_is_renamed_and_stays_selected(editor: EditorPage) -> None:
    name = editor.root.get_by_role("textbox", name="Name")
    name.fill("a b")
    expect(editor.root.get_by_role("alert").filter(has_text="letters, digits and underscores")).to_be_visible()
    name.fill("stem")
    name.press("Enter")
    expect(editor.node("stem")).to_be_visible()
    expect(editor.field("stem", "out_channels")).to_have_value("6")
    editor.settle()
    assert list(editor.graph.nodes) == ["stem"]


def test_what_python_refuses_is_taken_back_with_its_reason(editor: EditorPage) -> None:
    editor.graph.add("ReLU", name="stem")  # the browser has not been told yet
    editor.root.get_by_role("textbox", name="Name").fill("stem")
    editor.page.keyboard.press("Enter")
    expect(editor.toast).to_contain_text("There is a node 'stem' already")
    expect(editor.node("conv1")).to_be_visible()
    editor.settle()
    assert list(editor.graph.nodes) == ["conv1", "stem"]


def test_a_problem_shows_on_its_node_and_is_fixed_with_a_click(editor: EditorPage) -> None:
    fix = Fix("conv1", "out_channels", 8, "Set out_channels to 8")
    editor.kernel.extra = [Diagnostic("odd", "Six channels are unlucky.", "conv1", hint="Take eight.", fix=fix)]
    editor.graph.set("conv1", stride=2)
    editor.deliver()
    expect(editor.node("conv1").get_by_role("img", name=re.compile("unlucky"))).to_be_visible()
    expect(editor.node("conv1").locator(".pnne-card-message")).to_contain_text("Six channels are unlucky.")
    editor.root.get_by_role("complementary", name="Properties").get_by_role("button", name=fix.label).click()
    expect(editor.field("conv1", "out_channels")).to_have_value("8")
    editor.settle()
    assert editor.graph["conv1"].properties["out_channels"] == 8


def test_the_problems_list_jumps_to_the_node(editor: EditorPage) -> None:
    editor.page.keyboard.press("Escape")
    expect(editor.root.locator(".react-flow__node.selected")).to_have_count(0)
    editor.root.get_by_role("button", name="Not finished yet").click()
    editor.root.get_by_role("list", name="Problems").get_by_role("button", name=re.compile("^conv1")).click()
    expect(editor.root.locator(".react-flow__node.selected [data-node=conv1]")).to_be_visible()


def test_a_property_is_made_an_input_and_wired(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.add("sum", name="total")
    graph.add("Input", name="axis", shape=())
    graph.move("total", 0, 200)
    graph.move("axis", 260, 40)
    editor = open_editor(graph)
    editor.node("total").click()
    editor.button("Input port for dim").click()
    expect(editor.port("total.dim")).to_be_visible()
    editor.drag(editor.port("axis.output"), editor.port("total.dim"))
    expect(editor.edge("axis.output", "total.dim")).to_be_attached()
    editor.settle()
    assert graph.edges == (("axis.output", "total.dim"),)


def test_the_panel_at_rest_leads_to_the_ends_of_the_model_and_to_its_parameters(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.chain(("Input", {"name": "x", "shape": ("N", 4)}), ("Linear", {"name": "fc", "out_features": 4}), "Output")
    graph.arrange()
    editor = open_editor(graph)
    contents = editor.root.get_by_label("Contents")
    expect(contents).to_contain_text("N×6×24×24")
    expect(contents).to_contain_text("1,200 parameters")
    contents.get_by_role("button", name="fc").click()
    expect(editor.field("fc", "out_features")).to_have_value("4")


def test_rare_properties_fold_under_advanced_with_a_line_of_help_each(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.chain(("Input", {"name": "x", "shape": ("N", 8)}), ("Linear", {"name": "fc", "out_features": 4}))
    graph.arrange()
    editor = open_editor(graph, theme="dark")
    editor.node("fc").click()
    fold, device = editor.root.locator(".pnne-advanced"), editor.field("fc", "device")
    expect(device).to_be_hidden()
    fold.get_by_text("Advanced").click()
    expect(device).to_be_visible()
    assert fold.locator(".pnne-hint").all_inner_texts().count("") == 0
    assert fold.locator(".pnne-hint").count() == fold.locator("[data-property]").count()
    device.fill("cpu")
    device.press("Enter")
    editor.settle()
    editor.screenshot("advanced-dark")
    editor.node("x").click()
    editor.node("fc").click()
    expect(device).to_have_value("cpu")


def test_the_palette_selects_all_of_the_type_that_is_typed_inside_blocks_too(open_editor: OpenEditor) -> None:
    graph = NodeGraph("net")
    graph.chain(*[("Input", {"name": "x", "shape": ("N", 8)}), *["ReLU", ("Linear", {"out_features": 8})] * 2, "ReLU"])
    graph.group(["relu1", "linear1"], name="stem")
    graph.arrange()
    editor = open_editor(graph)
    editor.search("relu")
    editor.button("Select all 3 ReLU").click()
    expect(editor.root.locator(".pnne-properties h2")).to_have_text("3 nodes selected")
    editor.screenshot("palette-select-all")
    editor.page.keyboard.press("l")
    editor.search("hardswish")
    expect(editor.root.get_by_role("button", name=re.compile("^Select all"))).to_have_count(0)
