"""Equal nodes in a row: found, and drawn as one; the cases are replayed in the browser's language too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from pnne_nb.graph.document import NodeGraph
from tests.graph.types import TYPES

CASES = json.loads((Path(__file__).parents[2] / "cases" / "repeats.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_rows_are_found_and_folded(case: dict[str, Any]) -> None:
    graph = NodeGraph.from_json(json.dumps(case["document"]), types=TYPES)
    scene = graph._scene("", {}, case["resolved"], fold=True)
    assert [list(card.run) for card in scene.cards if card.run] == case["runs"]
    centres = {card.name: [card.x + card.geometry.width / 2, card.y + card.geometry.height / 2] for card in scene.cards}
    assert centres == case["shown"]


def _row(length: int) -> NodeGraph:
    graph = NodeGraph("row", types=TYPES)
    graph.add("Input", name="x", shape=("N", 8))
    before = "x"
    for place in range(length):
        name = f"relu{place}"
        graph.add("ReLU", name=name)
        graph.connect(before, name)
        before = name
    graph.add("Output", name="y")
    graph.connect(before, "y")
    return graph


def test_a_folded_picture_has_one_card_and_says_how_many_it_is() -> None:
    graph = _row(12)
    picture = ET.fromstring(graph.to_svg(fold=True))
    names = [
        group.get("data-node") for group in picture.iter("{http://www.w3.org/2000/svg}g") if group.get("data-node")
    ]
    edges = [
        path.get("data-edge") for path in picture.iter("{http://www.w3.org/2000/svg}path") if path.get("data-edge")
    ]
    words = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert names == ["x", "relu0", "y"]
    assert edges == ["relu11.output->y.input", "x.output->relu0.input"]
    assert {"relu0 … relu11", "×12"} <= set(words)
    assert "relu0 to relu11, 12 equal nodes in a row" in graph.to_html(fold=True)
    whole = ET.fromstring(graph.to_svg())
    assert float(picture.get("height", "0")) < float(whole.get("height", "0")) / 3
