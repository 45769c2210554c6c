"""The explorer's graph as SVG: every box and edge of the picture, in the colours of the canvas."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
import torch

from pnne_nb.compiler import compile
from pnne_nb.graph.sequential import sequential
from pnne_nb.inspector.tools.dataflow import Flow, follow
from pnne_nb.widgets.explorer.canvas import fills
from pnne_nb.widgets.explorer.explorer import ModuleExplorer
from pnne_nb.widgets.explorer.static_graph import graph_svg
from pnne_nb.widgets.explorer.view import Colouring, draw, first_open
from tests.inspector.models import Encoder

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def flow() -> Flow:
    return follow(Encoder(), torch.randn(2, 4, 8))


@pytest.mark.parametrize("colouring", ["type", "time", "parameters"])
def test_every_box_and_edge_is_there(flow: Flow, colouring: Colouring) -> None:
    picture = draw(flow, first_open(flow), "", colouring)
    marks = {"head": ["alarm"], "unused": ["uncalled"]}
    root = ET.fromstring(graph_svg(picture, marks, "head", ["Encoder", "head: Linear"], "light"))
    titles = [group.findtext(f"{SVG}title") for group in root.iter(f"{SVG}g")]
    assert sorted(filter(None, titles)) == sorted(box.key for box in picture.boxes)
    paths = root.find(f"{SVG}g[@class='edges']")
    assert paths is not None
    assert len(paths) == 2 * len(picture.edges)
    left, top, width, height = map(float, (root.get("viewBox") or "").split())
    for rect in root.iter(f"{SVG}rect"):
        x, y, wide, high = (float(rect.get(name, "")) for name in ("x", "y", "width", "height"))
        assert left <= x
        assert x + wide <= left + width + 0.2
        assert top <= y
        assert y + high <= top + height + 0.2
    chosen = [rect.get("class", "") for rect in root.iter(f"{SVG}rect") if "chosen" in rect.get("class", "")]
    assert len(chosen) == 1
    assert "alarm" in chosen[0]


def test_the_colours_are_those_of_the_canvas(flow: Flow) -> None:
    picture = draw(flow, first_open(flow))
    categories = [box.category for box in picture.boxes if box.category is not None]
    for theme in ("light", "dark"):
        drawn = graph_svg(picture, {}, "", ["Encoder"], theme)
        for fill, border in fills(theme, categories).values():
            assert f"fill:{fill};stroke:{border}" in drawn


def test_names_are_escaped(flow: Flow) -> None:
    drawn = graph_svg(draw(flow, {""}), {}, "", ["<script>alert(1)</script>"], "auto")
    assert "<script>" not in drawn
    ET.fromstring(drawn)


def test_boxes_without_edges_have_room_between_them() -> None:
    explorer = ModuleExplorer(compile(sequential("ReLU", "Sigmoid", "Tanh", "GELU", input=("N", 3))))
    try:
        root = ET.fromstring(explorer.to_svg("light"))
    finally:
        explorer.close()
    rects = [group.find(f"{SVG}rect") for group in root.iter(f"{SVG}g") if group.find(f"{SVG}title") is not None]
    rows = sorted(
        (float(rect.get("x", "")) // 100, float(rect.get("y", "")), float(rect.get("height", "")))
        for rect in rects
        if rect is not None
    )
    gaps = [below[1] - above[1] - above[2] for above, below in pairwise(rows) if above[1] < below[1]]
    assert min(gaps) > 10
