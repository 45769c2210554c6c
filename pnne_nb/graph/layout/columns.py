"""Breaks a long drawing that runs down into columns side by side, like a newspaper."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

from pnne_nb.graph.layout.geometry import Point
from pnne_nb.graph.layout.layered import LayeredEdge, Size

Cell: TypeAlias = tuple[float, float]
"""Width and height of a view in pixels."""
CELL: Cell = (780.0, 480.0)
"""The view in a cell of a notebook."""
MOST = 24
"""Largest number of columns."""
GAP = 72.0
"""Pixels between columns: an edge to the next column rises there."""
EASY_GAP = 160.0
"""Pixels between columns if there is room."""
STRETCH = 1.5
"""Largest factor of the distance of rows, if there is room."""
SPREAD = 1.4
"""Largest factor of the distance of the nodes of a row, if there is room."""


class _Row(NamedTuple):
    """Nodes that horizontal lines separate from those above and below, and the box around them."""

    names: Sequence[str]
    west: float
    north: float
    east: float
    south: float


def columns(
    places: Mapping[str, Point], sizes: Mapping[str, Size], links: Sequence[LayeredEdge], cell: Cell = CELL
) -> dict[str, Point]:
    """Return the centres of nodes in the number of columns that makes them largest in a cell.

    A column ends where few edges continue, near its regular length; these edges lead to the head of the next column. Unused
    room beside or below the columns is distributed between them.

    Args:
        places: Centres in a drawing that runs down.
        sizes: Sizes of the nodes.
        links: Edges between them.
        cell: The view that the drawing should fit into.
    """
    rows = _rows(places, sizes)
    continuing = _continuing(rows, links)
    best, largest = [rows], _scale(_extent([rows]), cell)
    for count in range(2, min(MOST, len(rows)) + 1):
        parts = _parts(rows, continuing, count)
        if (scale := _scale(_extent(parts), cell)) > largest:
            best, largest = parts, scale
    return _filling(best, places, sizes, cell) if len(best) > 1 else dict(places)


def _filling(
    parts: Sequence[Sequence[_Row]], places: Mapping[str, Point], sizes: Mapping[str, Size], cell: Cell
) -> dict[str, Point]:
    """Place columns side by side, with distances that fill the cell at their scale."""
    width, height = _extent(parts)
    scale = _scale((width, height), cell)
    stretch = max(1.0, min(STRETCH, cell[1] / scale / height))
    spare = max(0.0, cell[0] / scale - width)
    gaps = len(parts) - 1
    gap = min(EASY_GAP, GAP + spare / gaps)
    spare -= gaps * (gap - GAP)
    # More room than this stays on both sides: columns far apart do not read as one drawing.
    columns_of = [[name for row in part for name in row.names] for part in parts]
    across = sum(max(xs) - min(xs) for xs in ([places[name][0] for name in names] for names in columns_of))
    spread = min(SPREAD, 1 + spare / across) if across else 1.0
    made: dict[str, Point] = {}
    left = 0.0
    for names in columns_of:
        apart = {name: (places[name][0] * spread, places[name][1]) for name in names}
        west, north, east, _ = _box(names, apart, sizes)
        for name, (x, y) in apart.items():
            made[name] = (float(round(x - west + left)), float(round((y - north) * stretch)))
        left += east - west + gap
    return made


def _rows(places: Mapping[str, Point], sizes: Mapping[str, Size]) -> list[_Row]:
    rows: list[list[str]] = []
    end = 0.0
    for name in sorted(places, key=lambda name: places[name][1] - sizes[name].height / 2):
        top, bottom = _span(name, places, sizes)
        if not rows or top >= end:
            rows.append([])
        rows[-1].append(name)
        end = bottom if len(rows[-1]) == 1 else max(end, bottom)
    return [_Row(names, *_box(names, places, sizes)) for names in rows]


def _span(name: str, places: Mapping[str, Point], sizes: Mapping[str, Size]) -> tuple[float, float]:
    half = sizes[name].height / 2
    return places[name][1] - half, places[name][1] + half


def _continuing(rows: Sequence[_Row], links: Sequence[LayeredEdge]) -> list[int]:
    """Return the number of edges that continue below each row."""
    row_of = {name: number for number, row in enumerate(rows) for name in row.names}
    changes = [0] * len(rows)
    for link in links:
        source, target = row_of[link.source], row_of[link.target]
        if source < target:
            changes[source] += 1
            changes[target] -= 1
    return list(accumulate(changes))


def _parts(rows: list[_Row], continuing: Sequence[int], count: int) -> list[list[_Row]]:
    """Return the rows in `count` parts of about the same height."""
    start = rows[0].north
    height = (rows[-1].south - start) / count
    cuts: list[int] = []
    for part in range(1, count):
        wanted = start + part * height
        first = cuts[-1] + 1 if cuts else 0
        free = range(first, len(rows) - 1)
        begin, end = (
            bisect(rows, wanted + side * height / 4, first, len(rows) - 1, key=lambda row: row.south)
            for bisect, side in ((bisect_left, -1), (bisect_right, 1))
        )
        near = range(begin, end) or free
        if not near:
            break
        cuts.append(min(near, key=lambda row: (continuing[row], abs(rows[row].south - wanted))))
    edges = [0, *(cut + 1 for cut in cuts), len(rows)]
    return [rows[begin:end] for begin, end in pairwise(edges)]


def _extent(parts: Sequence[Sequence[_Row]]) -> tuple[float, float]:
    """Return the width and the height of parts side by side."""
    widths = [max(row.east for row in part) - min(row.west for row in part) for part in parts]
    return sum(widths) + GAP * (len(parts) - 1), max(part[-1].south - part[0].north for part in parts)


def _scale(extent: tuple[float, float], cell: Cell) -> float:
    """Return the scale at which something fits into a cell, at most 1."""
    return min(1.0, cell[0] / extent[0], cell[1] / extent[1])


def fitting_scale(places: Mapping[str, Point], sizes: Mapping[str, Size], cell: Cell = CELL) -> float:
    """Return the scale at which all nodes fit into a cell, at most 1."""
    if not places:
        return 1.0
    west, north, east, south = _box(list(places), places, sizes)
    return _scale((east - west, south - north), cell)


def _box(
    names: Sequence[str], places: Mapping[str, Point], sizes: Mapping[str, Size]
) -> tuple[float, float, float, float]:
    wests = [places[name][0] - sizes[name].width / 2 for name in names]
    easts = [places[name][0] + sizes[name].width / 2 for name in names]
    spans = [_span(name, places, sizes) for name in names]
    return min(wests), min(top for top, _ in spans), max(easts), max(bottom for _, bottom in spans)
