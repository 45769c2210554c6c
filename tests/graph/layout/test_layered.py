"""The layout: invariants on random graphs, exact pictures of small ones, stability, and work that grows gently."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnne_nb.graph.layout.layered import (
    NODE_GAP,
    RANK_GAP,
    Direction,
    LayeredEdge,
    Size,
    _crossings,
    _depth_first,
    arrange,
    order_ranks,
)
from pnne_nb.graph.layout.ranks import RankLayering, layer

WIDTH, HEIGHT = 100.0, 40.0


def boxes(names: str) -> dict[str, Size]:
    return {name: Size(WIDTH, HEIGHT) for name in names}


def links(text: str) -> list[LayeredEdge]:
    return [LayeredEdge(pair[0], pair[1]) for pair in text.split()]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, Size], list[LayeredEdge]]:
    count = draw(st.integers(1, 14))
    extent = st.integers(20, 200).map(float)
    nodes = {f"n{i}": Size(draw(extent), draw(extent)) for i in range(count)}
    pairs = list(itertools.combinations(range(count), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=30)) if pairs else []
    offset = st.integers(-10, 10).map(float)
    return nodes, [LayeredEdge(f"n{a}", f"n{b}", draw(offset), draw(offset)) for a, b in chosen]


@given(graphs(), st.sampled_from(["right", "down"]))
def test_edges_run_forwards_and_nothing_overlaps(
    graph: tuple[dict[str, Size], list[LayeredEdge]], direction: Direction
) -> None:
    nodes, edges = graph
    places = arrange(nodes, edges, direction)
    assert list(places) == list(nodes)
    along = 0 if direction == "right" else 1
    for edge in edges:
        end = places[edge.source][along] + nodes[edge.source][along] / 2
        start = places[edge.target][along] - nodes[edge.target][along] / 2
        assert start - end >= RANK_GAP - 2  # positions are whole pixels
    for a, b in itertools.combinations(nodes, 2):
        apart = [abs(places[a][axis] - places[b][axis]) - (nodes[a][axis] + nodes[b][axis]) / 2 for axis in (0, 1)]
        assert max(apart) >= NODE_GAP - 2


@given(graphs())
def test_the_picture_begins_at_the_origin_and_is_the_same_each_time(
    graph: tuple[dict[str, Size], list[LayeredEdge]],
) -> None:
    nodes, edges = graph
    places = arrange(nodes, edges)
    assert places == arrange(nodes, edges)
    for axis in (0, 1):
        # Up to half a grid cell inwards, where a small node stands in the middle of it.
        assert -1 <= min(place[axis] - nodes[name][axis] / 2 for name, place in places.items()) <= 100


def test_a_chain_is_a_straight_line() -> None:
    places = arrange(boxes("abcd"), links("ab bc cd"))
    assert places == {name: (50 + place * (100 + RANK_GAP), 20) for place, name in enumerate("abcd")}


def test_top_to_bottom_is_the_same_picture_turned() -> None:
    places = arrange(boxes("abc"), links("ab bc"), "down")
    assert places == {name: (50, 20 + place * (40 + RANK_GAP)) for place, name in enumerate("abc")}


def test_a_skip_connection_leaves_the_main_path_straight() -> None:
    places = arrange(boxes("abcdefg"), links("ab bc cd ad de ef fg dg"))
    assert len({y for _, y in places.values()}) == 1


def test_ports_are_level_not_centres() -> None:
    places = arrange(boxes("ab"), [LayeredEdge("a", "b", leaves=10, arrives=-5)])
    assert places["b"][1] - places["a"][1] == 15


def test_sums_one_after_the_other_stand_in_one_line() -> None:
    """What arrives at the first of two ports is not level with it: each sum would stand further to the side."""
    edges = [
        link
        for a, b, c in ("abc", "cde", "efg")
        for link in (LayeredEdge(a, b), LayeredEdge(b, c, 0, -20), LayeredEdge(a, c, 0, 20))
    ]
    assert len({y for _, y in arrange(boxes("abcdefg"), edges).values()}) == 1


def test_branches_stand_side_by_side_without_crossing() -> None:
    places = arrange(boxes("abcdxyz"), links("ab ac ad by cz dx"))
    assert places["b"][1] < places["c"][1] < places["d"][1]
    assert places["y"][1] < places["z"][1] < places["x"][1]


def test_the_order_of_ports_decides_the_order_of_what_feeds_them() -> None:
    places = arrange(boxes("abc"), [LayeredEdge("a", "c", 0, 15), LayeredEdge("b", "c", 0, -15)])
    assert places["b"][1] < places["a"][1]


def test_a_late_input_stands_beside_what_uses_it() -> None:
    places = arrange(boxes("abcdx"), links("ab bc cd xd"))
    assert places["x"][0] == places["c"][0]


def test_parts_are_stacked_and_lone_nodes_are_a_grid_below() -> None:
    places = arrange(boxes("abxyuvw"), links("ab xy"))
    assert places["a"][1] == places["b"][1] < places["x"][1] == places["y"][1] < places["u"][1]
    assert places["u"][1] == places["v"][1] < places["w"][1]
    assert places["u"][0] == places["w"][0]


def test_an_empty_graph_and_a_loop_are_arranged_too() -> None:
    assert arrange({}, []) == {}
    assert len(set(arrange(boxes("abc"), links("ab bc ca aa")).values())) == 3


def test_an_edge_to_an_unknown_node_is_refused() -> None:
    with pytest.raises(KeyError, match="z"):
        arrange(boxes("a"), links("az"))


def residual(count: int) -> tuple[dict[str, Size], list[LayeredEdge]]:
    nodes = {f"n{i}": Size(WIDTH, HEIGHT) for i in range(count)}
    edges = [LayeredEdge(f"n{i}", f"n{i + 1}") for i in range(count - 1)]
    return nodes, edges + [LayeredEdge(f"n{i}", f"n{i + 5}") for i in range(0, count - 5, 5)]


def test_a_small_edit_moves_little() -> None:
    nodes, edges = residual(200)
    before = arrange(nodes, edges)
    nodes["leaf"] = Size(WIDTH, HEIGHT)
    after = arrange(nodes, [*edges, LayeredEdge("n100", "leaf")])
    moved = [name for name in before if before[name][0] != after[name][0]]
    shift = after["n0"][1] - before["n0"][1]
    moved += [name for name in before if abs(after[name][1] - before[name][1] - shift) > NODE_GAP]
    assert not moved


def steps(work: Callable[[], object]) -> int:
    """Count calls of Python functions and lines' worth of work, which no other program can disturb."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "edges_of", [residual, lambda n: (residual(n)[0], [LayeredEdge(f"n{i}", f"n{n - 1}") for i in range(n - 1)])]
)
def test_the_work_grows_in_proportion(edges_of: Callable[[int], tuple[dict[str, Size], list[LayeredEdge]]]) -> None:
    small, large = edges_of(250), edges_of(1000)
    assert steps(lambda: arrange(*large)) < 6 * steps(lambda: arrange(*small))


def layering_of(count: int, pairs: list[tuple[int, int]]) -> RankLayering:
    return layer(count, [(source, target, 0.0, 0.0) for source, target in pairs])


def counted(layering: RankLayering, rows: list[list[int]]) -> int:
    """Crossings by definition: pairs of arcs between two ranks whose ends are in opposite order."""
    place = {vertex: at for row in rows for at, vertex in enumerate(row)}
    total = 0
    for row in rows:
        arcs = [arc for vertex in row for arc in layering.out[vertex]]
        for one, other in itertools.combinations(arcs, 2):
            total += (place[one[0]] - place[other[0]]) * (place[one[1]] - place[other[1]]) < 0
    return total


@st.composite
def layerings(draw: st.DrawFn) -> RankLayering:
    count = draw(st.integers(1, 9))
    pairs = list(itertools.combinations(range(count), 2))
    return layering_of(count, draw(st.lists(st.sampled_from(pairs), max_size=14, unique=True)) if pairs else [])


@given(layerings())
def test_every_vertex_stands_once_in_its_rank(layering: RankLayering) -> None:
    rows = order_ranks(layering)
    assert sorted(itertools.chain(*rows)) == list(range(layering.count))
    for rank, row in enumerate(rows):
        assert all(layering.ranks[vertex] == rank for vertex in row)


@given(layerings())
def test_crossings_are_counted_as_defined_and_do_not_grow(layering: RankLayering) -> None:
    rows, first = order_ranks(layering), _depth_first(layering)
    assert _crossings(layering, rows) == counted(layering, rows)
    assert counted(layering, rows) <= counted(layering, first)


def test_two_crossed_chains_are_untangled() -> None:
    layering = layering_of(6, [(0, 3), (1, 2), (2, 4), (3, 5), (0, 2)])
    assert counted(layering, order_ranks(layering)) == 0
