"""A long drawing in columns: as large as can be, no node on another, cut where few edges go on."""

from __future__ import annotations

import sys
from itertools import pairwise
from types import FrameType

import pytest

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.layout.columns import CELL, columns
from pnne_nb.graph.layout.layered import LayeredEdge, Size, arrange
from tests.graph.types import TYPES


def chain(count: int) -> tuple[dict[str, Size], list[LayeredEdge]]:
    names = [f"n{number}" for number in range(count)]
    return dict.fromkeys(names, Size(176.0, 70.0)), [LayeredEdge(one, other) for one, other in pairwise(names)]


@pytest.mark.parametrize("count", [1, 2, 5, 20, 60])
def test_a_row_of_nodes_is_as_large_as_can_be(count: int) -> None:
    sizes, links = chain(count)
    down = arrange(sizes, links, "down")
    placed = columns(down, sizes, links)
    assert placed.keys() == sizes.keys()
    boxes = [(x - 88, y - 35, x + 88, y + 35) for x, y in placed.values()]
    for place, one in enumerate(boxes):
        for other in boxes[place + 1 :]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    width = max(box[2] for box in boxes) - min(box[0] for box in boxes)
    height = max(box[3] for box in boxes) - min(box[1] for box in boxes)
    # The smallest text of a card has 11 pixels.
    assert 11 * min(1.0, CELL[0] / width, CELL[1] / height) >= (9 if count <= 5 else 6 if count <= 20 else 3.5)
    order = [placed[f"n{number}"] for number in range(count)]
    assert order == sorted(order), "down each column, and then to the next"


def test_nothing_moves_where_one_column_is_best() -> None:
    sizes, links = chain(3)
    down = arrange(sizes, links, "down")
    assert columns(down, sizes, links) == down


def calls_for(count: int) -> int:
    """Return how many functions and steps of generators are called to arrange a row of `count` nodes in columns."""
    sizes, links = chain(count)
    down = arrange(sizes, links, "down")
    calls = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        columns(down, sizes, links)
    finally:
        sys.setprofile(before)
    return calls


def test_ten_times_as_many_nodes_are_ten_times_the_work() -> None:
    assert calls_for(4000) < 12 * calls_for(400)


def test_a_document_is_arranged_in_columns_in_one_step() -> None:
    graph = NodeGraph("long", types=TYPES)
    graph.add("Input", name="x", shape=("N", 4))
    for number in range(40):
        graph.add("ReLU", name=f"relu{number}")
        graph.connect("x" if number == 0 else f"relu{number - 1}", f"relu{number}")
    graph.arrange(direction="columns")
    assert len({node.position[0] // 200 for node in graph.nodes.values() if node.position is not None}) > 1
    graph.undo()
    assert graph["x"].position is None
