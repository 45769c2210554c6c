"""Computes positions from sizes and edges: each connected part is laid out by itself, then all are stacked."""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from pnne_nb.graph.layout.ranks import Arc, RankLayering, layer
from pnne_nb.process.idle import breathe

Direction: TypeAlias = Literal["auto", "right", "down", "columns"]
"""The direction of edges; in columns, they run down, and from the foot of each to the head of the next. ``"auto"``: down if the
drawing can be read so in a cell, else the direction that makes it largest there."""

RANK_GAP = 44.0
"""Pixels between the ranks: room for a shape label beside an edge."""

NODE_GAP = 24.0
"""Pixels between neighbours of a rank."""

PART_GAP = 60.0
"""Pixels between parts that are not connected."""


class Size(NamedTuple):
    """Width and height in pixels."""

    width: float
    height: float


class LayeredEdge(NamedTuple):
    """An edge, and the places of its ports.

    Attributes:
        source: A node.
        target: Another node.
        leaves: Place of the output port along the cross axis, in pixels from the centre of `source`.
        arrives: Place of the input port, from the centre of `target`.
    """

    source: str
    target: str
    leaves: float = 0.0
    arrives: float = 0.0


def arrange(
    nodes: Mapping[str, Size], links: Iterable[LayeredEdge], direction: Direction = "right", gap: float = RANK_GAP
) -> dict[str, tuple[float, float]]:
    """Return the centre of every node, in whole pixels; the picture begins at (0, 0).

    Args:
        nodes: Sizes by name; their order breaks ties.
        links: Edges between them; loops are allowed, and edges of a node to itself ignored.
        direction: ``"right"`` for edges from left to right, ``"down"`` for edges from top to bottom.
        gap: Pixels between the ranks.

    Raises:
        KeyError: If a link names a node that is not in `nodes`.
    """
    numbers = {name: number for number, name in enumerate(nodes)}
    arcs: list[Arc] = [
        (numbers[source], numbers[target], leaves, arrives)
        for source, target, leaves, arrives in links
        if source != target
    ]
    # Within this module "along" is the direction of the edges, "across" the other one.
    along, across = (0, 1) if direction == "right" else (1, 0)
    sizes = list(nodes.values())
    lengths, widths = [size[along] for size in sizes], [size[across] for size in sizes]

    centres: list[tuple[float, float]] = [(0.0, 0.0)] * len(sizes)
    top = 0.0
    parts = _parts(len(sizes), arcs)
    alone = [part[0] for part in parts if len(part) == 1]
    for part in (*(part for part in parts if len(part) > 1), alone):
        if not part:
            continue
        if part is alone:
            height = _lay_out_grid(part, lengths, widths, top, centres)
        else:
            height = _lay_out(part, arcs, lengths, widths, top, gap, centres)
        top += height + PART_GAP
    names = list(nodes)
    if direction == "right":
        return {name: (float(round(x)), float(round(y))) for name, (x, y) in zip(names, centres, strict=True)}
    return {name: (float(round(y)), float(round(x))) for name, (x, y) in zip(names, centres, strict=True)}


def _parts(count: int, arcs: list[Arc]) -> list[list[int]]:
    """Return the connected components, each in the order of nodes, in the order of their first nodes."""
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for source, target, _, _ in arcs:
        neighbours[source].append(target)
        neighbours[target].append(source)
    seen = [False] * count
    parts = []
    for root in range(count):
        if seen[root]:
            continue
        seen[root] = True
        part = [root]
        for vertex in part:
            for other in neighbours[vertex]:
                if not seen[other]:
                    seen[other] = True
                    part.append(other)
        parts.append(sorted(part))
    return parts


def _lay_out(
    part: list[int],
    arcs: list[Arc],
    lengths: list[float],
    widths: list[float],
    top: float,
    gap: float,
    centres: list[tuple[float, float]],
) -> float:
    """Set the centres of one connected part with the upper edge at `top`; return its extent across."""
    if len(part) == len(lengths):
        own = arcs
    else:
        numbers = {vertex: number for number, vertex in enumerate(part)}
        own = [(numbers[s], numbers[t], leaves, arrives) for s, t, leaves, arrives in arcs if s in numbers]
    layering = layer(len(part), own)
    rows = order_ranks(layering)
    across = [widths[vertex] for vertex in part] + [0.0] * (layering.count - len(part))
    placed = place(layering, rows, across, NODE_GAP)

    real = range(len(part))
    shift = top - min(placed[number] - across[number] / 2 for number in real)
    start = 0.0
    for row in rows:
        longest = max((lengths[part[number]] for number in row if number < len(part)), default=0.0)
        for number in row:
            if number < len(part):
                centres[part[number]] = (start + longest / 2, placed[number] + shift)
        start += longest + gap
    return max(placed[number] + across[number] / 2 for number in real) + shift - top


def _lay_out_grid(
    part: list[int], lengths: list[float], widths: list[float], top: float, centres: list[tuple[float, float]]
) -> float:
    """Set the centres of unconnected nodes, in about as many rows as columns; return their extent across."""
    columns = math.ceil(math.sqrt(len(part)))
    column, row = max(lengths[vertex] for vertex in part), max(widths[vertex] for vertex in part)
    for index, vertex in enumerate(part):
        centres[vertex] = (
            (index % columns) * (column + NODE_GAP) + column / 2,
            top + (index // columns) * (row + NODE_GAP) + row / 2,
        )
    return math.ceil(len(part) / columns) * (row + NODE_GAP) - NODE_GAP


SWEEPS = 6
PORT_WEIGHT = 1e-3
"""Weight of a pixel of port offset, relative to the distance to the next vertex of a rank."""


def order_ranks(layering: RankLayering) -> list[list[int]]:
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


def _depth_first(layering: RankLayering) -> list[list[int]]:
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


def _crossings(layering: RankLayering, rows: list[list[int]]) -> int:
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


COORDINATE_SWEEPS = 3
SPINE_WEIGHT = 1e6
"""Weight of a vertex on a straight path, relative to other vertices."""

CHAIN_WEIGHT = 1e2
"""Weight of the dummies of a long edge: they stay straight if possible, but give way to nodes."""


def place(layering: RankLayering, rows: list[list[int]], sizes: Sequence[float], gap: float) -> list[float]:
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
    for wanted, order in (*(down, up) * COORDINATE_SWEEPS, down):
        for row in order:
            breathe()
            _settle(row, [wanted(layering, steps, centres, vertex) for vertex in row], closest, weights, centres)
    return centres


def _wanted_from_before(layering: RankLayering, steps: list[float], centres: list[float], vertex: int) -> float:
    arcs = layering.into[vertex]
    spine = layering.spine_before[vertex]
    if spine >= 0:
        return centres[spine] + steps[vertex]
    if not arcs:
        return _wanted_from_after(layering, steps, centres, vertex) if layering.out[vertex] else centres[vertex]
    return sum(centres[s] + leaves - arrives for s, _, leaves, arrives in arcs) / len(arcs)


def _wanted_from_after(layering: RankLayering, steps: list[float], centres: list[float], vertex: int) -> float:
    arcs = layering.out[vertex]
    spine = layering.spine_after[vertex]
    if spine >= 0:
        return centres[spine] - steps[spine]
    if not arcs or layering.spine_before[vertex] >= 0:
        return centres[vertex]
    return sum(centres[t] + arrives - leaves for _, t, leaves, arrives in arcs) / len(arcs)


def _steps(layering: RankLayering) -> list[float]:
    """Return the offset across of each vertex from the one before it on a straight path, with which their ports are level.

    It is 0 if several edges arrive, each at a port beside the middle: a net of a hundred sums would lean away.
    """
    return [
        arcs[0][2] - arcs[0][3] if spine >= 0 and len(arcs) == 1 else 0.0
        for spine, arcs in zip(layering.spine_before, layering.into, strict=True)
    ]


def _weights(layering: RankLayering) -> list[float]:
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
