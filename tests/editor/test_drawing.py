"""Drawing without aiming: each node goes on from the one before, and few keys or clicks are needed."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from playwright.sync_api import expect

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.edits.gaps import areas
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage

LENET = (
    "Input", "Conv2d", "ReLU", "MaxPool2d", "Conv2d", "ReLU", "MaxPool2d", "Flatten",
    "Linear", "ReLU", "Linear", "ReLU", "Linear", "Output",
)  # fmt: skip


@pytest.fixture
def graph() -> NodeGraph:
    return NodeGraph("net")


def assert_chained(graph: NodeGraph, types: tuple[str, ...] = LENET) -> None:
    assert tuple(node.type for node in graph.nodes.values()) == types
    names = list(graph.nodes)
    ends = [(edge.source.partition(".")[0], edge.target.partition(".")[0]) for edge in graph.edges]
    assert ends == list(pairwise(names))


def assert_apart(editor: EditorPage) -> None:
    """No card of the document is over another; the page may still be gliding there."""
    content = editor.graph._content
    cards = areas(content, content.graphs[""], across=False)
    assert not [(one, other) for one, other in combinations(cards, 2) if cards[one].covers(cards[other])]


def test_a_lenet_takes_no_more_than_27_keys(editor: EditorPage) -> None:
    editor.root.get_by_role("region", name="Graph").focus()
    pressed = 0

    def press(*keys: str) -> None:
        nonlocal pressed
        for key in keys:
            editor.page.keyboard.press(key)
            pressed += 1

    # An empty search offers what usually comes next.
    press("/", "Enter", "c", "Enter", "Enter", "Enter", "Enter", "Enter", "Enter", "f", "Enter", "l", "Enter")
    press("Enter", "l", "Enter", "Enter", "l", "Enter", "o", "Enter")
    assert pressed <= 27
    editor.settle()
    assert_chained(editor.graph)
    assert_apart(editor)
    editor.screenshot("editor-drawn-by-keys")


def test_a_lenet_takes_no_more_than_14_clicks(editor: EditorPage) -> None:
    for place, type in enumerate(LENET):
        following = editor.button(f"Next: {type}")
        editor.settle()
        if following.count():
            following.click()
        else:
            editor.root.first.locator(f'[role="option"][data-type="{type}"]').click()
        expect(editor.root.first.locator(".pnne-card")).to_have_count(place + 1)
    editor.settle()
    assert_chained(editor.graph)
    assert_apart(editor)


def test_space_and_double_click_go_on_from_the_last_node_and_shift_adds_loose(editor: EditorPage) -> None:
    canvas = editor.root.get_by_role("region", name="Graph")
    canvas.focus()
    for type in ("input", "linear", "output"):
        editor.page.keyboard.press("Space")
        editor.page.keyboard.type(type)
        editor.page.keyboard.press("Enter")
    editor.settle()
    assert_chained(editor.graph, ("Input", "Linear", "Output"))
    assert_apart(editor)
    editor.node("linear1").click()
    box = canvas.bounding_box()
    assert box is not None
    editor.page.mouse.dblclick(box["x"] + 60, box["y"] + box["height"] - 60)
    editor.page.keyboard.type("gelu")
    editor.page.keyboard.press("Shift+Enter")
    editor.settle()
    assert not [edge for edge in editor.graph.edges if edge.target == "gelu1.input"]
    assert_apart(editor)


def test_a_node_joins_all_that_is_selected_and_a_source_feeds_a_free_input(editor: EditorPage) -> None:
    editor.add("Input")
    editor.add("Linear")
    editor.node("input1").click()
    editor.add("Linear")
    editor.node("linear1").click()
    editor.node("linear2").click(modifiers=["Shift"])
    editor.add("cat")
    editor.add("Input")
    editor.settle()
    assert {(edge.source, edge.target) for edge in editor.graph.edges} == {
        ("input1.output", "linear1.input"),
        ("input1.output", "linear2.input"),
        ("linear1.output", "cat1.tensors_0"),
        ("linear2.output", "cat1.tensors_1"),
        ("input2.output", "cat1.tensors_2"),
    }
    assert_apart(editor)


def test_what_goes_on_nowhere_stays_loose(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Output", name="y")
    graph.connect("x", "y")
    editor = open_editor(graph)
    editor.node("y").click()
    editor.add("ReLU")
    editor.settle()
    assert len(graph.edges) == 1
    assert_apart(editor)
