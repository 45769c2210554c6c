"""The order within ranks: complete, with no more crossings than at first, and with none where none is needed."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.graph.layout.crossings import _crossings, _depth_first, order_ranks
from pnne_nb.graph.layout.ranks import Layering, layer


def layering_of(count: int, pairs: list[tuple[int, int]]) -> Layering:
    return layer(count, [(source, target, 0.0, 0.0) for source, target in pairs])


def counted(layering: Layering, rows: list[list[int]]) -> int:
    """Crossings by definition: pairs of arcs between two ranks whose ends are in opposite order."""
    place = {vertex: at for row in rows for at, vertex in enumerate(row)}
    total = 0
    for row in rows:
        arcs = [arc for vertex in row for arc in layering.out[vertex]]
        for one, other in itertools.combinations(arcs, 2):
            total += (place[one[0]] - place[other[0]]) * (place[one[1]] - place[other[1]]) < 0
    return total


@st.composite
def layerings(draw: st.DrawFn) -> Layering:
    count = draw(st.integers(1, 9))
    pairs = list(itertools.combinations(range(count), 2))
    return layering_of(count, draw(st.lists(st.sampled_from(pairs), max_size=14, unique=True)) if pairs else [])


@given(layerings())
def test_every_vertex_stands_once_in_its_rank(layering: Layering) -> None:
    rows = order_ranks(layering)
    assert sorted(itertools.chain(*rows)) == list(range(layering.count))
    for rank, row in enumerate(rows):
        assert all(layering.ranks[vertex] == rank for vertex in row)


@given(layerings())
def test_crossings_are_counted_as_defined_and_do_not_grow(layering: Layering) -> None:
    rows, first = order_ranks(layering), _depth_first(layering)
    assert _crossings(layering, rows) == counted(layering, rows)
    assert counted(layering, rows) <= counted(layering, first)


def test_two_crossed_chains_are_untangled() -> None:
    layering = layering_of(6, [(0, 3), (1, 2), (2, 4), (3, 5), (0, 2)])
    assert counted(layering, order_ranks(layering)) == 0
