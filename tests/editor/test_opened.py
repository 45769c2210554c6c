"""Blocks that are open in place, in the browser: their frames, the room around them, and edits in them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from playwright.sync_api import Locator, expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage


@pytest.fixture
def graph() -> NodeGraph:
    """``x -> outer -> head -> y`` and ``x -> side -> y``; in ``outer``, ``stem -> inner``; in ``inner``, ``fc -> relu``."""
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    for name in ("stem", "fc", "head", "side"):
        graph.add("Linear", name=name, out_features=8)
    graph.add("ReLU", name="relu")
    graph.add("add", name="sum")
    graph.add("Output", name="y")
    for start, end in (("x", "stem"), ("stem", "fc"), ("fc", "relu"), ("relu", "head"), ("x", "side"), ("sum", "y")):
        graph.connect(start, end)
    graph.connect("head.output", "sum.input")
    graph.connect("side.output", "sum.other")
    graph.group(["fc", "relu"], name="inner")
    graph.group(["stem", "inner"], name="outer")
    graph.arrange()
    for id in graph.graphs:
        graph.arrange(id)
    return graph


def box(editor: EditorPage, name: str) -> Mapping[str, float]:
    found = editor.node(name).bounding_box()
    assert found is not None, name
    return dict(found)


def is_within(inner: Mapping[str, float], outer: Mapping[str, float]) -> bool:
    return all(
        outer[start] <= inner[start] and inner[start] + inner[size] <= outer[start] + outer[size]
        for start, size in (("x", "width"), ("y", "height"))
    )


def overlap(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return all(
        one[start] < other[start] + other[size] and other[start] < one[start] + one[size]
        for start, size in (("x", "width"), ("y", "height"))
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_look(graph: NodeGraph, open_editor: OpenEditor, theme: str) -> None:
    editor = open_editor(graph, theme=theme, size=(1400, 1000))
    editor.root.get_by_role("region", name="Graph").focus()
    editor.page.keyboard.press("o")
    expect(editor.node("outer.stem")).to_be_visible()
    editor.page.keyboard.press("o")
    expect(editor.node("outer.inner.fc")).to_be_visible()
    editor.page.keyboard.press("f")
    editor.page.wait_for_timeout(400)
    editor.screenshot(f"editor-opened-{theme}")
