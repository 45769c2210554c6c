"""Edges of a large graph: React Flow has those that somebody is busy with, and the others are drawn on one sheet."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from pnne_nb.graph.document import NodeGraph
from tests.editor.conftest import OpenEditor
from tests.editor.page import EditorPage


@pytest.fixture
def graph() -> NodeGraph:
    """160 layers in ten columns, the first of which also feeds the third."""
    graph = NodeGraph("large")
    previous = graph.add("Input", name="x", shape=("N", 8))
    for index in range(1, 160):
        node = graph.add("add" if index == 3 else "ReLU", name=f"n{index}")
        graph.connect(previous, "n3.input" if index == 3 else node)
        previous = node
    graph.connect("n1.output", "n3.other")
    for index, name in enumerate(graph.nodes):
        graph.move(name, 260.0 * (index // 16), 120.0 * (index % 16))
    return graph


@pytest.fixture
def editor(graph: NodeGraph, open_editor: OpenEditor) -> EditorPage:
    editor = open_editor(graph)
    expect(editor.node("n4")).to_be_visible()
    return editor


def place(wire: Locator) -> tuple[float, float]:
    """The middle of an edge on the page."""
    x, y = wire.evaluate(
        """(element) => {
          const path = element.matches("path") ? element : element.querySelector("path");
          const { x, y } = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(path.getScreenCTM());
          return [x, y];
        }"""
    )
    return x, y


def is_on_sheet(wire: Locator) -> bool:
    return bool(wire.evaluate("(element) => element.closest('.pnne-wires') !== null"))


def pictured(wire: Locator) -> list[float]:
    """Where an edge begins and ends on the page."""
    return [
        round(number, 1)
        for number in wire.evaluate(
            """(element) => {
              const path = element.matches("path") ? element : element.querySelector("path");
              const ends = [path.getPointAtLength(0), path.getPointAtLength(path.getTotalLength())];
              return ends.flatMap((end) => {
                const { x, y } = end.matrixTransform(path.getScreenCTM());
                return [x, y];
              });
            }"""
        )
    ]


def test_an_edge_is_react_flows_while_the_pointer_is_on_it_and_stands_where_it_stood(editor: EditorPage) -> None:
    wire = editor.edge("n17.output", "n18.input")
    assert is_on_sheet(wire)
    before = pictured(wire)
    x, y = place(wire)
    editor.page.mouse.move(x + 4, y)
    expect(editor.root.locator(".react-flow__edge")).to_have_count(1)
    assert not is_on_sheet(wire)
    assert pictured(wire) == before
    expect(wire).to_have_count(1)
    editor.page.mouse.move(x + 60, y)
    expect(editor.root.locator(".react-flow__edge")).to_have_count(0)
    assert is_on_sheet(wire)


def test_a_click_selects_an_edge_and_delete_removes_it(graph: NodeGraph, editor: EditorPage) -> None:
    wire = editor.edge("n17.output", "n18.input")
    editor.page.mouse.click(*place(wire))
    expect(editor.root.locator(".react-flow__edge.selected")).to_have_count(1)
    editor.page.keyboard.press("Delete")
    expect(wire).to_have_count(0)
    editor.settle()
    assert "n18.input" not in {edge.target for edge in graph.edges}
    editor.page.keyboard.press("Control+z")
    expect(wire).to_have_count(1)


def test_a_press_that_no_move_announced_selects_an_edge(editor: EditorPage) -> None:
    x, y = place(editor.edge("n17.output", "n18.input"))
    tap = {"x": x, "y": y, "gestureSourceType": "mouse"}
    editor.page.context.new_cdp_session(editor.page).send("Input.synthesizeTapGesture", tap)
    expect(editor.root.locator(".react-flow__edge.selected")).to_have_count(1)


def test_the_label_of_an_edge_selects_it(editor: EditorPage) -> None:
    # Waits until the labels stand still: they are set anew when the sizes arrive.
    editor.root.locator(".pnne-wires .pnne-wire-label").nth(3).hover()
    expect(editor.root.locator(".react-flow__edge")).to_have_count(1)
    editor.page.mouse.down()
    editor.page.mouse.up()
    expect(editor.root.locator(".react-flow__edge.selected")).to_have_count(1)


def test_the_end_of_an_edge_is_dragged_to_another_port(graph: NodeGraph, editor: EditorPage) -> None:
    wire = editor.edge("n1.output", "n3.other")
    x, y = pictured(wire)[2:]
    editor.page.mouse.move(x, y - 12)
    expect(editor.root.locator(".react-flow__edge")).to_have_count(1)
    anchor = editor.root.locator(".react-flow__edgeupdater-target")
    editor.drag(anchor, editor.port("n17.input"))
    editor.settle()
    assert ("n1.output", "n17.input") in {(edge.source, edge.target) for edge in graph.edges}
    assert "n3.other" not in {edge.target for edge in graph.edges}


def test_a_new_edge_is_drawn_from_port_to_port(graph: NodeGraph, editor: EditorPage) -> None:
    editor.drag(editor.port("n2.output"), editor.port("n17.input"), drop=False)
    expect(editor.port("n17.input")).to_have_class(re.compile(r"\bconnectingto valid\b"))
    editor.page.mouse.up()
    editor.settle()
    assert ("n2.output", "n17.input") in {(edge.source, edge.target) for edge in graph.edges}
    expect(editor.edge("n2.output", "n17.input")).to_have_count(1)


def test_edges_follow_a_node_that_is_dragged(graph: NodeGraph, editor: EditorPage) -> None:
    wire = editor.edge("n17.output", "n18.input")
    before = pictured(wire)
    box = editor.node("n18").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    editor.drag_by(editor.node("n18"), x + 70, y + 10, drop=False)
    assert not is_on_sheet(wire)
    dragged = pictured(wire)
    assert dragged[:2] == before[:2]
    assert dragged[2] - before[2] > 40
    editor.page.mouse.up()
    editor.settle()
    assert is_on_sheet(wire)
    assert pictured(wire) == pytest.approx(dragged, abs=1)


def test_letters_keep_their_size_while_the_view_moves_and_have_another_when_it_rests(editor: EditorPage) -> None:
    canvas = editor.root.locator(".react-flow")
    expect(canvas).to_have_class(re.compile(r"\bpnne-tell-all\b"))
    box = canvas.bounding_box()
    assert box is not None
    editor.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 30)
    told = canvas.evaluate(
        """(canvas) => new Promise((done) => {
          const told = [];
          const step = () => {
            const wheel = { bubbles: true, cancelable: true, ctrlKey: true, deltaY: 2 };
            const { left, top, width, height } = canvas.getBoundingClientRect();
            const place = { clientX: left + width / 2, clientY: top + height / 2 };
            canvas.querySelector(".react-flow__pane").dispatchEvent(new WheelEvent("wheel", { ...wheel, ...place, view: window }));
            told.push(canvas.className.match(/pnne-tell-\\w+/)[0]);
            if (told.length < 30) requestAnimationFrame(step);
            else done(told);
          };
          requestAnimationFrame(step);
        })"""
    )
    assert set(told) == {"pnne-tell-all"}
    expect(canvas).to_have_class(re.compile(r"\bpnne-tell-larger\b"))
