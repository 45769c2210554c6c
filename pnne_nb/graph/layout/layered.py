"""Computes positions from sizes and edges: each connected part is laid out by itself, then all are stacked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from pnne_nb.graph.layout.coordinates import place
from pnne_nb.graph.layout.crossings import order_ranks
from pnne_nb.graph.layout.ranks import Arc, layer

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
    part: list[int],
    lengths: list[float],
    widths: list[float],
    top: float,
    centres: list[tuple[float, float]],
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
