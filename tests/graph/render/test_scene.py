"""The scene of a graph: a card for each node, a wire for each edge, and nothing on top of anything else."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.errors import UnknownNodeError
from pnne_nb.graph.edits.apply import apply_op
from pnne_nb.graph.layout.cards import NONE_RESOLVED
from pnne_nb.graph.model.content import Content
from pnne_nb.graph.model.ops import AddFrame, AddGraph, AddNode, Connect
from pnne_nb.graph.render.scene import NO_SHAPES, Scene, scene
from tests.graph.types import TYPES


class Given(NamedTuple):
    shape: tuple[int | str, ...]
    dtype: str = "float32"


def drawn(content: Content, within: str = "", **given: Given) -> Scene:
    shapes = {f"{name}.output": value for name, value in given.items()}
    return scene(content, within, TYPES, shapes or NO_SHAPES, NONE_RESOLVED)


@given(st.data())
def test_cards_do_not_overlap_and_wires_end_at_them(data: st.DataObject) -> None:
    content = Content("net")
    count = data.draw(st.integers(1, 7))
    placed = data.draw(st.lists(st.integers(0, count - 1), unique=True))
    for each in range(count):
        position = (400.0 * each, 0.0) if each in placed else None
        apply_op(content, AddNode(f"n{each}", "cat", position=position))
    pairs = list(itertools.combinations(range(count), 2))
    for place, (source, target) in enumerate(data.draw(st.lists(st.sampled_from(pairs), max_size=8)) if pairs else []):
        apply_op(content, Connect(f"n{source}.output", f"n{target}.tensors_{place}"))
    found = drawn(content)
    assert [card.name for card in found.cards] == content.graphs[""].order
    for one, other in itertools.combinations(found.cards, 2):
        (left, top, right, bottom), (x1, y1, x2, y2) = one.box, other.box
        assert right <= x1 or x2 <= left or bottom <= y1 or y2 <= top
    cards = {card.name: card for card in found.cards}
    assert [(wire.source, wire.target) for wire in found.wires] == sorted(content.graphs[""].edges.values())
    for wire in found.wires:
        for end, (x, y) in ((wire.source, wire.points[0]), (wire.target, wire.points[-1])):
            left, top, right, bottom = cards[end.partition(".")[0]].box
            assert left - 1 <= x <= right + 1
            assert top - 1 <= y <= bottom + 1


def test_the_shape_is_written_on_the_shortest_edge_of_a_port() -> None:
    content = Content("net")
    for op in (
        AddNode("x", "Input", position=(0.0, 0.0)),
        AddNode("near", "ReLU", position=(0.0, 200.0)),
        AddNode("far", "ReLU", position=(0.0, 900.0)),
        Connect("x.output", "far.input"),
        Connect("x.output", "near.input"),
    ):
        apply_op(content, op)
    found = drawn(content, x=Given(("N", 3)))
    assert {wire.target: wire.labelled for wire in found.wires} == {"near.input": True, "far.input": False}
    assert all("N" in wire.label and "3" in wire.label for wire in found.wires)


def test_what_shows_a_definition_counts_its_uses_and_an_unknown_type_is_drawn() -> None:
    content = Content("net")
    for op in (
        AddGraph("inner"),
        AddNode("act", "ReLU", graph="inner"),
        AddNode("one", "Subgraph", {"definition": "inner"}),
        AddNode("two", "Subgraph", {"definition": "inner"}),
        AddNode("odd", "Gone"),
    ):
        apply_op(content, op)
    cards = {card.name: card for card in drawn(content).cards}
    assert (cards["one"].uses, cards["one"].times) == (2, "×2")
    assert (cards["odd"].known, cards["odd"].times) == (False, "")
    inside = drawn(content, "two")
    assert [card.name for card in inside.cards] == ["act"]
    assert inside.title == "net, two"
    with pytest.raises(UnknownNodeError, match=r"There is nothing inside 'odd'"):
        drawn(content, "odd")


def test_the_largest_frame_lies_at_the_bottom() -> None:
    content = Content("net")
    for name, size in (("a", 10.0), ("b", 90.0), ("c", 40.0)):
        apply_op(content, AddFrame(name, (0.0, 0.0, size, size)))
    assert [frame.name for frame in drawn(content).frames] == ["b", "c", "a"]
