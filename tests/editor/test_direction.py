"""A graph that is arranged from left to right: ports at the sides, edges between them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage


@pytest.fixture
def graph() -> NodeGraph:
    """``x -> fc -> add`` and ``x -> add``, from left to right."""
    graph = NodeGraph("net")
    graph.add("Input", name="x", shape=("N", 8))
    graph.add("Linear", name="fc", out_features=8)
    graph.add("add", name="add")
    graph.connect("x", "fc", "add.input")
    graph.connect("x", "add.other")
    graph.arrange(direction="right")
    return graph


def edges_of(element: Locator) -> tuple[float, float, float, float]:
    """Left, top, right and bottom, in pixels of the page."""
    box = element.bounding_box()
    assert box is not None
    return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]


def middle(element: Locator) -> tuple[float, float]:
    left, top, right, bottom = edges_of(element)
    return (left + right) / 2, (top + bottom) / 2


def ends(editor: EditorPage, source: str, target: str) -> list[float]:
    """Where the path of an edge begins and ends on the page: x1, y1, x2, y2."""
    points: list[float] = (
        editor.edge(source, target)
        .locator("path")
        .first.evaluate(
            """path => [0, path.getTotalLength()].flatMap((length) => {
              const point = path.getPointAtLength(length).matrixTransform(path.getScreenCTM());
              return [point.x, point.y];
            })"""
        )
    )
    return points


def test_ports_stand_at_the_sides_and_edges_end_at_them(editor: EditorPage) -> None:
    left, top, right, bottom = edges_of(editor.node("add"))
    for port in ("input", "other"):
        x, y = middle(editor.port(f"add.{port}"))
        assert x == pytest.approx(left, abs=1)
        assert top < y < bottom
        label = editor.node("add").locator(".pnne-port-label", has_text=re.compile(f"^{port}$"))
        assert middle(label)[1] == pytest.approx(y, abs=1.5), "its name stands beside it"
        assert left < edges_of(label)[0]
    assert middle(editor.port("add.output"))[0] == pytest.approx(right, abs=1)
    for source, target in (("fc.output", "add.input"), ("x.output", "add.other")):
        x1, y1, x2, y2 = ends(editor, source, target)
        assert [x1, y1] == pytest.approx(middle(editor.port(source)), abs=6)
        assert [x2, y2] == pytest.approx(middle(editor.port(target)), abs=6)


def test_of_the_edges_of_a_port_the_shortest_says_the_shape(editor: EditorPage) -> None:
    near = editor.edge("x.output", "fc.input").locator(".pnne-wire-label")
    far = editor.edge("x.output", "add.other").locator(".pnne-wire-label")
    expect(near).to_have_css("opacity", "1")
    expect(far).to_have_css("opacity", "0")
    expect(far).to_have_text("N×6×24×24")
    x1, y1, x2, y2 = ends(editor, "x.output", "fc.input")
    left, _, right, bottom = edges_of(near)
    assert (left + right) / 2 == pytest.approx((x1 + x2) / 2, abs=2)
    assert bottom <= (y1 + y2) / 2 + 2, "above the edge"


def test_a_graph_goes_on_in_its_direction(editor: EditorPage) -> None:
    editor.node("add").click()
    editor.add("ReLU")
    expect(editor.edge("add.output", "relu1.input")).to_be_attached()
    assert edges_of(editor.node("relu1"))[0] > edges_of(editor.node("add"))[2]
    editor.settle()
    places = [editor.graph[name].position or (0.0, 0.0) for name in ("add", "relu1")]
    assert places[0][1] == places[1][1]


def test_arranging_downwards_puts_the_ports_above_and_below_again(graph: NodeGraph, editor: EditorPage) -> None:
    editor.button("Arrange").click()
    editor.settle()
    expect(editor.node("add").locator(".react-flow__handle-left")).to_have_count(2)  # the direction is kept
    editor.root.get_by_role("region", name="Graph").press("Shift+A")
    editor.settle()
    expect(editor.node("add").locator(".react-flow__handle-top")).to_have_count(2)
    # Both in one frame: the view glides to where all is in view.
    above = editor.node("add").evaluate(
        """(node, port) => {
            const [card, dot] = [node.getBoundingClientRect(), port.getBoundingClientRect()];
            return card.top - (dot.top + dot.bottom) / 2;
        }""",
        editor.port("add.input").element_handle(),
    )
    assert above == pytest.approx(0, abs=1)
    graph.undo()
    editor.deliver()
    expect(editor.node("add").locator(".react-flow__handle-left")).to_have_count(2)


def test_a_connection_is_drawn_from_side_to_side(graph: NodeGraph, open_editor: OpenEditor) -> None:
    graph.add("ReLU", name="relu")
    x, y = graph["add"].position or (0.0, 0.0)
    graph.move("relu", x + 272, y)
    editor = open_editor(graph, size=(1700, 760))
    editor.drag(editor.port("add.output"), editor.port("relu.input"))
    expect(editor.edge("add.output", "relu.input")).to_be_attached()
