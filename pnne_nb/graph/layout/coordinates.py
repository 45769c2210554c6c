"""Computes coordinates along the cross axis: least squares in each rank, without overlaps, with straight paths."""

from __future__ import annotations

from collections.abc import Sequence

from pnne_nb.graph.layout.ranks import Arc, Layering

SWEEPS = 3
SPINE_WEIGHT = 1e6
"""Weight of a vertex on a straight path, relative to other vertices."""

CHAIN_WEIGHT = 1e2
"""Weight of the dummies of a long edge: they stay straight if possible, but give way to nodes."""


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
    down, up = (_wanted_from_before, rows), (_wanted_from_after, rows[::-1])
    # The last sweep goes down, without regard to later ranks: straight chains end straight.
    for wanted, order in (*(down, up) * SWEEPS, down):
        for row in order:
            _settle(row, [wanted(layering, centres, vertex) for vertex in row], layering, centres, sizes, gap)
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
    """Return the offset across between two vertices of a straight path, with which their ports are level.

    It is 0 if several edges arrive, each at a port beside the middle: a net of a hundred sums would lean away.
    """
    _, target, leaves, arrives = arc
    return 0.0 if len(layering.into[target]) > 1 else leaves - arrives


def _settle(
    row: list[int], wanted: list[float], layering: Layering, centres: list[float], sizes: Sequence[float], gap: float
) -> None:
    """Move the vertices of a rank as near to their wanted positions as their order and sizes allow.

    This is isotonic regression: without the required distances, positions must not decrease. Neighbours that violate this are
    pooled at their weighted mean.
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
