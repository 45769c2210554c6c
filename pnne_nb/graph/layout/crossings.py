"""Orders the vertices within each rank: barycentre sweeps, keeping the order with the fewest crossings."""

from __future__ import annotations

from bisect import bisect_right, insort
from itertools import pairwise

from pnne_nb.graph.layout.ranks import Arc, Layering
from pnne_nb.process.idle import breathe

SWEEPS = 6
PORT_WEIGHT = 1e-3
"""Weight of a pixel of port offset, relative to the distance to the next vertex of a rank."""


def order_ranks(layering: Layering) -> list[list[int]]:
    """Return the vertices of each rank, in order along the cross axis."""
    rows = _depth_first(layering)
    best, fewest = [list(row) for row in rows], _crossings(layering, rows)
    for _ in range(SWEEPS):
        if not fewest:
            break
        _sweep(rows, layering.into, range(1, len(rows)), source=True)
        _sweep(rows, layering.out, range(len(rows) - 2, -1, -1), source=False)
        count = _crossings(layering, rows)
        if count >= fewest:
            break
        best, fewest = [list(row) for row in rows], count
    return best


def _depth_first(layering: Layering) -> list[list[int]]:
    """Return a first order, depth first, so that connected vertices are close together."""
    rows: list[list[int]] = [[] for _ in range(max(layering.ranks, default=-1) + 1)]
    seen = [False] * layering.count
    for root in range(layering.count):
        if seen[root] or layering.into[root]:
            continue
        stack = [root]
        while stack:
            vertex = stack.pop()
            if seen[vertex]:
                continue
            seen[vertex] = True
            rows[layering.ranks[vertex]].append(vertex)
            stack.extend(arc[1] for arc in reversed(layering.out[vertex]) if not seen[arc[1]])
    return rows


def _sweep(rows: list[list[int]], arcs: list[list[Arc]], indices: range, *, source: bool) -> None:
    """Order each rank by the places of neighbours in the rank before; vertices without any keep their place."""
    for index in indices:
        breathe()
        neighbours = rows[index - 1] if source else rows[index + 1]
        place = {vertex: position for position, vertex in enumerate(neighbours)}
        row = rows[index]
        if len(row) < 2:
            continue
        keys: dict[int, float] = {}
        for position, vertex in enumerate(row):
            if source:
                ends = [place[before] + PORT_WEIGHT * leaves for before, _, leaves, _ in arcs[vertex]]
            else:
                ends = [place[after] + PORT_WEIGHT * arrives for _, after, _, arrives in arcs[vertex]]
            keys[vertex] = sum(ends) / len(ends) if ends else position
        row.sort(key=keys.__getitem__)


def _crossings(layering: Layering, rows: list[list[int]]) -> int:
    """Return the number of pairs of arcs that cross, in O(arcs · log arcs)."""
    total = 0
    for row, following in pairwise(rows):
        breathe()
        if len(row) == len(following) == 1:
            continue
        place = {vertex: position for position, vertex in enumerate(following)}
        ends = [
            (position + PORT_WEIGHT * leaves, place[target] + PORT_WEIGHT * arrives)
            for position, vertex in enumerate(row)
            for _, target, leaves, arrives in layering.out[vertex]
        ]
        ends.sort()
        seen: list[float] = []
        for _, end in ends:
            total += len(seen) - bisect_right(seen, end)
            insort(seen, end)
    return total
