"""Computes coordinates along the cross axis: least squares in each rank, without overlaps and with straight spines."""

from __future__ import annotations

from collections.abc import Sequence

from pnne_nb.graph.layout.ranks import Arc, Layering

SWEEPS = 3
SPINE_WEIGHT = 1e6
"""How much more a vertex on a straight path resists being pushed than another."""

CHAIN_WEIGHT = 1e2
"""The same for the dummies of a long edge: straight if they can be, but they make way for nodes."""


def place(layering: Layering, rows: list[list[int]], sizes: Sequence[float], gap: float) -> list[float]:
    """Return the centre of each vertex along the cross axis.

    Args:
        layering: The graph.
        rows: Vertices by rank, in order.
        sizes: Extent of each vertex along the cross axis, in pixels; 0 for dummies.
        gap: Least distance between neighbours in a rank, in pixels.
    """
    centres = [0.0] * layering.count
    for row in rows:  # close together, in order
        edge = 0.0
        for vertex in row:
            centres[vertex] = edge + sizes[vertex] / 2
            edge += sizes[vertex] + gap
    for _ in range(SWEEPS):
        for row in rows:
            _settle(row, [_wanted_from_before(layering, centres, v) for v in row], layering, centres, sizes, gap)
        for row in reversed(rows):
            _settle(row, [_wanted_from_after(layering, centres, v) for v in row], layering, centres, sizes, gap)
    for row in rows:
        # Once more downwards, where what comes after does not object: straight chains end straight.
        _settle(row, [_wanted_from_before(layering, centres, v) for v in row], layering, centres, sizes, gap)
    return centres


def _wanted_from_before(layering: Layering, centres: list[float], vertex: int) -> float:
    arcs = layering.into[vertex]
    spine = layering.spine_before[vertex]
    if spine >= 0:
        return centres[spine] + next(_step(layering, arc) for arc in arcs if arc[0] == spine)
    if not arcs:
        return _wanted_from_after(layering, centres, vertex) if layering.out[vertex] else centres[vertex]
    return sum(centres[s] + leaves - arrives for s, _, leaves, arrives in arcs) / len(arcs)


def _wanted_from_after(layering: Layering, centres: list[float], vertex: int) -> float:
    arcs = layering.out[vertex]
    spine = layering.spine_after[vertex]
    if spine >= 0:
        return centres[spine] - next(_step(layering, arc) for arc in arcs if arc[1] == spine)
    if not arcs or layering.spine_before[vertex] >= 0:
        return centres[vertex]
    return sum(centres[t] + arrives - leaves for _, t, leaves, arrives in arcs) / len(arcs)


def _step(layering: Layering, arc: Arc) -> float:
    """Return how far a straight path goes across from a vertex to the next: so far that their ports are level.

    But not where several edges arrive, each at a port beside the middle: a net of a hundred sums would lean away.
    """
    _, target, leaves, arrives = arc
    return 0.0 if len(layering.into[target]) > 1 else leaves - arrives


def _settle(
    row: list[int], wanted: list[float], layering: Layering, centres: list[float], sizes: Sequence[float], gap: float
) -> None:
    """Move a rank's vertices as near to where they want to be as their order and sizes allow.

    Isotonic regression: with the required distances taken off, positions must not decrease; neighbours that
    would are pooled at their weighted mean.
    """
    if len(row) == 1:
        centres[row[0]] = wanted[0]
        return
    pools: list[tuple[float, float, int]] = []  # mean, weight, number of vertices
    offsets: list[float] = []
    offset = 0.0
    for position, vertex in enumerate(row):
        if position:
            offset += (sizes[row[position - 1]] + sizes[vertex]) / 2 + gap
        offsets.append(offset)
        on_spine = layering.spine_before[vertex] >= 0 or layering.spine_after[vertex] >= 0
        weight = (SPINE_WEIGHT if vertex < layering.nodes else CHAIN_WEIGHT) if on_spine else 1.0
        mean, number = wanted[position] - offset, 1
        while pools and pools[-1][0] > mean:
            other, mass, members = pools.pop()
            mean = (mean * weight + other * mass) / (weight + mass)
            weight += mass
            number += members
        pools.append((mean, weight, number))
    position = 0
    for mean, _, number in pools:
        for _ in range(number):
            centres[row[position]] = mean + offsets[position]
            position += 1
