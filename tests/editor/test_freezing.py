"""Freezing in the editor: a snowflake and a pale band on many nodes by one key, and a new head."""

from __future__ import annotations

from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor


def drawn() -> NodeGraph:
    graph = NodeGraph("classifier")
    graph.chain(
        ("Input", {"name": "x", "shape": ("N", 3, 8, 8)}),
        ("Conv2d", {"name": "conv", "out_channels": 8, "kernel_size": 3}),
        ("BatchNorm2d", {"name": "norm"}),
        ("ReLU", {"name": "act"}),
        ("flatten", {"name": "flat", "start_dim": 1}),
        ("Linear", {"name": "fc", "out_features": 1000}),
        ("Output", {"name": "y"}),
    )
    graph.group(["conv", "norm"], name="stem")
    graph.arrange()
    return graph


def test_many_nodes_are_frozen_by_one_key_and_trained_again_by_undo(open_editor: OpenEditor) -> None:
    editor = open_editor(drawn())
    keyboard = editor.page.keyboard
    editor.node("act").click()
    keyboard.press("Control+a")
    keyboard.press("l")
    expect(editor.page.locator(".pnne-frozen")).to_have_count(2)
    expect(editor.node("stem").get_by_role("img", name="Frozen")).to_be_visible()
    editor.settle()
    assert [path for path in ("stem", "fc") if not editor.graph[path].trainable] == ["stem", "fc"]
    keyboard.press("Control+z")
    expect(editor.page.locator(".pnne-frozen")).to_have_count(0)


def test_all_of_a_type_are_frozen_in_three_keys(open_editor: OpenEditor) -> None:
    graph = NodeGraph("mlp")
    graph.chain(*[("Input", {"name": "x", "shape": ("N", 4)}), *["ReLU", ("Linear", {"out_features": 4})] * 3])
    graph.arrange()
    editor = open_editor(graph)
    editor.node("linear2").click()
    editor.page.keyboard.press("Shift+T")
    editor.page.keyboard.press("l")
    expect(editor.page.locator(".pnne-frozen")).to_have_count(3)
    editor.settle()
    assert editor.graph.undo_label == "Freeze 3 nodes"


def test_inside_a_frozen_block_the_layers_are_frozen(open_editor: OpenEditor) -> None:
    graph = drawn()
    graph.freeze("stem")
    editor = open_editor(graph)
    editor.node("stem").dblclick()
    expect(editor.node("stem.conv").get_by_role("img", name="Frozen")).to_be_visible()
    editor.node("stem.conv").click()
    editor.page.keyboard.press("l")
    expect(editor.page.get_by_text("The block stem around it is frozen")).to_be_visible()


def test_a_new_head_is_made_and_its_size_typed(open_editor: OpenEditor) -> None:
    graph = drawn()
    graph.freeze("*")
    editor = open_editor(graph)
    editor.node("fc").click(button="right")
    editor.page.get_by_role("menuitem", name="Replace the head").click()
    editor.page.keyboard.type("10")
    editor.page.keyboard.press("Enter")
    expect(editor.node("fc")).to_contain_text("10")
    editor.settle()
    assert editor.graph["fc"].properties["out_features"] == 10
    assert editor.graph["fc"].trainable
    assert not editor.graph["stem"].trainable
    assert ("fc.output", "y.input") in editor.graph.edges
