"""Computes coordinates along the cross axis: least squares in each rank, without overlaps, with straight paths."""

from __future__ import annotations

from collections.abc import Sequence

from pnne_nb.graph.layout.ranks import Layering
from pnne_nb.process.idle import breathe

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
    closest = list(centres)
    weights = _weights(layering)
    steps = _steps(layering)
    down, up = (_wanted_from_before, rows), (_wanted_from_after, rows[::-1])
    # The last sweep goes down, without regard to later ranks: straight chains end straight.
    for wanted, order in (*(down, up) * SWEEPS, down):
        for row in order:
            breathe()
            _settle(row, [wanted(layering, steps, centres, vertex) for vertex in row], closest, weights, centres)
    return centres


def _wanted_from_before(layering: Layering, steps: list[float], centres: list[float], vertex: int) -> float:
    arcs = layering.into[vertex]
    spine = layering.spine_before[vertex]
    if spine >= 0:
        return centres[spine] + steps[vertex]
    if not arcs:
        return _wanted_from_after(layering, steps, centres, vertex) if layering.out[vertex] else centres[vertex]
    return sum(centres[s] + leaves - arrives for s, _, leaves, arrives in arcs) / len(arcs)


def _wanted_from_after(layering: Layering, steps: list[float], centres: list[float], vertex: int) -> float:
    arcs = layering.out[vertex]
    spine = layering.spine_after[vertex]
    if spine >= 0:
        return centres[spine] - steps[spine]
    if not arcs or layering.spine_before[vertex] >= 0:
        return centres[vertex]
    return sum(centres[t] + arrives - leaves for _, t, leaves, arrives in arcs) / len(arcs)


def _steps(layering: Layering) -> list[float]:
    """Return the offset across of each vertex from the one before it on a straight path, with which their ports are level.

    It is 0 if several edges arrive, each at a port beside the middle: a net of a hundred sums would lean away.
    """
    return [
        arcs[0][2] - arcs[0][3] if spine >= 0 and len(arcs) == 1 else 0.0
        for spine, arcs in zip(layering.spine_before, layering.into, strict=True)
    ]


def _weights(layering: Layering) -> list[float]:
    """Return the weight of each vertex among the others of its rank."""
    spines = zip(layering.spine_before, layering.spine_after, strict=True)
    return [
        1.0 if before < 0 and after < 0 else SPINE_WEIGHT if vertex < layering.nodes else CHAIN_WEIGHT
        for vertex, (before, after) in enumerate(spines)
    ]


def _settle(
    row: list[int], wanted: list[float], closest: Sequence[float], weights: Sequence[float], centres: list[float]
) -> None:
    """Move the vertices of a rank as near to their wanted positions as their order and sizes allow.

    This is isotonic regression: without the required distances, positions must not decrease. Neighbours that violate this are
    pooled at their weighted mean.

    Args:
        row: The vertices, in order.
        wanted: Their wanted positions.
        closest: Positions of all vertices as close together as they may be.
        weights: Weights of all vertices.
        centres: Positions of all vertices; those of the row are replaced.
    """
    if len(row) == 1:
        centres[row[0]] = wanted[0]
        return
    pools: list[tuple[float, float, int]] = []  # mean, weight, number of vertices
    for vertex, place in zip(row, wanted, strict=True):
        mean, weight, number = place - closest[vertex], weights[vertex], 1
        while pools and pools[-1][0] > mean:
            other, mass, members = pools.pop()
            mean = (mean * weight + other * mass) / (weight + mass)
            weight += mass
            number += members
        pools.append((mean, weight, number))
    position = 0
    for mean, _, number in pools:
        for vertex in row[position : position + number]:
            centres[vertex] = mean + closest[vertex]
        position += number
