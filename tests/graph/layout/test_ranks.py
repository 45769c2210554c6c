"""Ranks: arcs join neighbouring ranks, long ones through dummies, and loops are opened."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.graph.layout.ranks import Arc, layer


def arcs_of(pairs: list[tuple[int, int]]) -> list[Arc]:
    return [(source, target, 0.0, 0.0) for source, target in pairs]


@st.composite
def any_pairs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    count = draw(st.integers(1, 9))
    vertex = st.integers(0, count - 1)
    return count, draw(st.lists(st.tuples(vertex, vertex), max_size=20))


@given(any_pairs())
def test_every_arc_leads_to_the_next_rank(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = drawn
    layering = layer(count, arcs_of(pairs))
    assert layering.nodes == count
    assert layering.count == len(layering.ranks) == len(layering.into) == len(layering.out)
    assert sorted(itertools.chain(*layering.into)) == sorted(itertools.chain(*layering.out))
    for arc in itertools.chain(*layering.out):
        assert layering.ranks[arc[1]] == layering.ranks[arc[0]] + 1
    for vertex in range(count, layering.count):  # a dummy carries one edge on
        assert len(layering.into[vertex]) == 1


@given(any_pairs())
def test_dummies_lead_to_every_target_of_a_graph_without_loops(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = drawn
    forward = {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}
    layering = layer(count, arcs_of(sorted(forward)))
    found: set[tuple[int, int]] = set()
    for vertex in range(count):
        pending = [arc[1] for arc in layering.out[vertex]]
        while pending:
            reached = pending.pop()
            if reached < count:
                found.add((vertex, reached))
            else:
                pending += [arc[1] for arc in layering.out[reached]]
    assert found == forward


@given(any_pairs())
def test_spines_are_disjoint_paths(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = drawn
    layering = layer(count, arcs_of(pairs))
    for vertex, after in enumerate(layering.spine_after):
        if after >= 0:
            assert layering.spine_before[after] == vertex
            assert layering.ranks[after] == layering.ranks[vertex] + 1


def test_what_has_no_inputs_stands_beside_what_uses_it() -> None:
    layering = layer(4, arcs_of([(0, 1), (1, 2), (3, 2)]))
    assert layering.ranks == [0, 1, 2, 1]
