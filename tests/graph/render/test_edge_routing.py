"""Edges run around what stands in their way; the cases are replayed in the browser's language too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pnne_nb.graph.document import NodeGraph
from pnne_nb.graph.layout.cards import NONE_RESOLVED
from pnne_nb.graph.layout.layered import Direction
from pnne_nb.graph.render.edge_routing import APART, parted, routed
from pnne_nb.graph.render.scene import SceneEdge, scene
from pnne_nb.graph.schema.registry import registry
from pnne_nb.graph.storage import read

CASES, LANES = (
    json.loads((Path(__file__).parents[2] / "cases" / "routes.json").read_text(encoding="utf-8"))[which]
    for which in ("cases", "lanes")
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_case(case: dict[str, Any]) -> None:
    boxes, own = ([tuple(box) for box in case.get(which, ())] for which in ("boxes", "own"))
    points = routed(tuple(case["start"]), tuple(case["end"]), boxes, own=own)
    assert [list(point) for point in points] == case["points"]


@pytest.mark.parametrize("case", LANES, ids=lambda case: case["about"])
def test_edges_of_different_ports_share_no_line(case: dict[str, Any]) -> None:
    routes = [(port, [tuple(point) for point in points]) for port, *points in case["routes"]]
    found = parted(routes, [tuple(box) for box in case["boxes"]])
    assert [[list(point) for point in points] for points in found] == case["parted"]


def lines(edge: SceneEdge) -> Iterator[tuple[int, float, float, float]]:
    """The straight pieces of an edge that goes around nodes: the axis across, the place on it, from where to where."""
    for (x1, y1), (x2, y2) in pairwise(edge.points[1:-1]):
        low, high = sorted((y1, y2) if x1 == x2 else (x1, x2))
        yield (0, x1, low, high) if x1 == x2 else (1, y1, low, high)


@st.composite
def skipping(draw: st.DrawFn) -> NodeGraph:
    """A chain in which some nodes also take what another one before them gives."""
    graph, length = NodeGraph("net"), draw(st.integers(4, 14))
    graph.add("Input", name="n0", shape=("N", 8))
    for place in range(1, length):
        graph.add("add", name=f"n{place}")
        graph.connect(f"n{place - 1}", f"n{place}.input")
        graph.connect(f"n{draw(st.integers(max(0, place - 8), place - 1))}", f"n{place}.other")
    return graph


@settings(max_examples=60, deadline=None)
@given(skipping(), st.sampled_from(["down", "right", "columns"]))
def test_no_two_skips_of_any_graph_share_a_lane(graph: NodeGraph, direction: Direction) -> None:
    graph.arrange(direction=direction)
    shown = scene(read(graph.to_json()), "", registry, {}, NONE_RESOLVED)
    pieces = [(edge.source, piece) for edge in shown.wires for piece in lines(edge)]
    for (one, (axis, at, low, high)), (other, (turn, lane, start, end)) in combinations(pieces, 2):
        if one != other and axis == turn and low < end and start < high:
            assert abs(at - lane) >= APART[-1], f"{one} and {other} share a line"
