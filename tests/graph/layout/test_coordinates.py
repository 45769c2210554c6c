"""Coordinates: order and distances are kept, and a chain is a straight line."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.graph.layout.layered import order_ranks, place
from pnne_nb.graph.layout.ranks import layer

GAP = 10.0


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[float]]:
    count = draw(st.integers(1, 9))
    pairs = list(itertools.combinations(range(count), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=14, unique=True)) if pairs else []
    return count, chosen, draw(st.lists(st.integers(5, 90).map(float), min_size=count, max_size=count))


@given(graphs())
def test_neighbours_in_a_rank_keep_their_order_and_distance(
    graph: tuple[int, list[tuple[int, int]], list[float]],
) -> None:
    count, pairs, sizes = graph
    layering = layer(count, [(source, target, 0.0, 0.0) for source, target in pairs])
    extents = [*sizes, *[0.0] * (layering.count - count)]
    rows = order_ranks(layering)
    centres = place(layering, rows, extents, GAP)
    for row in rows:
        for one, other in itertools.pairwise(row):
            room = centres[other] - centres[one] - (extents[one] + extents[other]) / 2
            assert room >= GAP - 1e-3


@given(st.lists(st.integers(5, 90).map(float), min_size=1, max_size=9))
def test_a_chain_is_straight(sizes: list[float]) -> None:
    layering = layer(len(sizes), [(each, each + 1, 0.0, 0.0) for each in range(len(sizes) - 1)])
    centres = place(layering, order_ranks(layering), sizes, GAP)
    assert centres == pytest.approx([centres[0]] * len(sizes))


def test_ports_of_a_chain_are_level() -> None:
    layering = layer(2, [(0, 1, 8.0, -4.0)])
    centres = place(layering, order_ranks(layering), [40.0, 40.0], GAP)
    assert centres[0] + 8.0 == pytest.approx(centres[1] - 4.0)
