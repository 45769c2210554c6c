"""The picture as HTML: an image, and every node with what feeds it, with nothing that a page could run."""

from __future__ import annotations

import base64
import re

import pytest

import pnne_nb as pn
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.layout.cards import NONE_RESOLVED
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.ops import AddFrame, AddNode, Connect, RenameDocument
from pnne_nb.graph.render import html, svg
from pnne_nb.graph.render.html import figure, lines
from pnne_nb.graph.render.scene import NO_SHAPES, Scene, scene
from tests.graph.types import TYPES


def drawn(name: str = "net") -> Scene:
    content = Content("net")
    for op in (
        AddNode("x", "Input", position=(0.0, 0.0)),
        AddNode("fc", "Linear", {"in_features": 4, "out_features": 2}, (0.0, 200.0)),
        AddNode("sum", "add", position=(0.0, 400.0)),
        Connect("x.output", "fc.input"),
        Connect("x.output", "sum.input"),
        Connect("fc.output", "sum.other"),
        AddFrame("frame1", (-200.0, 100.0, 400.0, 200.0), "Head <b>"),
        RenameDocument(name),
    ):
        apply_op(content, op)
    return scene(content, "", TYPES, NO_SHAPES, NONE_RESOLVED)


def test_each_node_is_a_line_with_what_feeds_it() -> None:
    text = list(lines(drawn()))
    assert len(text) == 4
    assert text[0].startswith("x, Input")
    assert "from" not in text[0]
    assert text[1].startswith("fc, Linear")
    assert text[1].endswith(", from x.output")
    assert set(text[2].partition(", from ")[2].split(", ")) == {"x.output", "fc.output"}
    assert text[3] == "Frame: Head <b>, around fc"


def test_the_picture_is_an_image_and_names_are_escaped() -> None:
    made = figure(drawn('<script>"net"'), "<svg>…</svg>")
    found = re.search(r'src="data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)"', made)
    assert found is not None
    assert base64.b64decode(found[1]).decode() == "<svg>…</svg>"
    assert "<script" not in made
    assert "<b>" not in made
    assert made.count("<li>") == 4


def test_thousands_of_nodes_are_boxes_and_some_of_them_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "LISTED", 500)
    monkeypatch.setattr(svg, "NAMED", 500)
    graph = pn.NodeGraph("large")
    with graph.transaction():
        for number in range(502):
            graph.move(graph.add("ReLU", name=f"n{number}"), 0.0, 60.0 * number)
    drawn = graph.to_svg("light")
    assert drawn.count('class="block"') == 1
    assert "n501" not in drawn
    text = graph.to_html()
    assert "<li>n499, ReLU</li><li>… and 2 more nodes</li>" in text
