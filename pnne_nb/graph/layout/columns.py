"""Breaks a long drawing that runs down into columns side by side, like a newspaper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

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
WIDEST_GAP = 400.0
"""The same if there is still room after the nodes of each row are spread."""
STRETCH = 1.5
"""Largest factor of the distance of rows, if there is room."""
SPREAD = 1.4
"""Largest factor of the distance of the nodes of a row, if there is room."""


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
    crossing = _crossing(rows, links)
    best, largest = [list(places)], fitting_scale(places, sizes, cell)
    for count in range(2, min(MOST, len(rows)) + 1):
        parts = _parts(rows, crossing, count, sizes, places)
        if (scale := fitting_scale(_side_by_side(parts, places, sizes), sizes, cell)) > largest:
            best, largest = parts, scale
    return _filling(best, places, sizes, cell) if len(best) > 1 else dict(places)


def _filling(
    parts: Sequence[Sequence[str]], places: Mapping[str, Point], sizes: Mapping[str, Size], cell: Cell
) -> dict[str, Point]:
    """Place columns side by side, with distances that fill the cell at their scale."""
    west, north, east, south = _box(list(places), _side_by_side(parts, places, sizes), sizes)
    scale = min(1.0, cell[0] / (east - west), cell[1] / (south - north))
    stretch = max(1.0, min(STRETCH, cell[1] / scale / (south - north)))
    spare = max(0.0, cell[0] / scale - (east - west))
    gaps = len(parts) - 1
    gap = min(EASY_GAP, GAP + spare / gaps)
    spare -= gaps * (gap - GAP)
    across = sum(max(xs) - min(xs) for xs in ([places[name][0] for name in names] for names in parts))
    spread = min(SPREAD, 1 + spare / across) if across else 1.0
    spare -= across * (spread - 1)
    apart = {name: (x * spread, y) for name, (x, y) in places.items()}
    return _side_by_side(parts, apart, sizes, min(WIDEST_GAP, gap + spare / gaps), stretch)


def _rows(places: Mapping[str, Point], sizes: Mapping[str, Size]) -> list[list[str]]:
    """Return the nodes in rows that a horizontal line can separate."""
    rows: list[list[str]] = []
    end = 0.0
    for name in sorted(places, key=lambda name: places[name][1] - sizes[name].height / 2):
        top, bottom = _span(name, places, sizes)
        if not rows or top >= end:
            rows.append([])
        rows[-1].append(name)
        end = bottom if len(rows[-1]) == 1 else max(end, bottom)
    return rows


def _span(name: str, places: Mapping[str, Point], sizes: Mapping[str, Size]) -> tuple[float, float]:
    half = sizes[name].height / 2
    return places[name][1] - half, places[name][1] + half


def _crossing(rows: Sequence[Sequence[str]], links: Sequence[LayeredEdge]) -> list[int]:
    """Return the number of edges that continue below each row."""
    row_of = {name: row for row, names in enumerate(rows) for name in names}
    return [
        sum(row_of[link.source] <= row < row_of[link.target] for link in links) for row in range(max(0, len(rows) - 1))
    ]


def _parts(
    rows: Sequence[Sequence[str]],
    crossing: Sequence[int],
    count: int,
    sizes: Mapping[str, Size],
    places: Mapping[str, Point],
) -> list[list[str]]:
    """Return the rows in `count` parts of about the same height."""
    bottoms = [max(_span(name, places, sizes)[1] for name in names) for names in rows]
    start = min(_span(name, places, sizes)[0] for name in rows[0])
    height = (bottoms[-1] - start) / count
    cuts: list[int] = []
    for part in range(1, count):
        wanted = start + part * height
        free = range(cuts[-1] + 1 if cuts else 0, len(rows) - 1)
        near = [row for row in free if abs(bottoms[row] - wanted) <= height / 4] or list(free)
        if not near:
            break
        cuts.append(min(near, key=lambda row: (crossing[row], abs(bottoms[row] - wanted))))
    edges = [0, *(cut + 1 for cut in cuts), len(rows)]
    return [[name for names in rows[begin:end] for name in names] for begin, end in pairwise(edges)]


def _side_by_side(
    parts: Sequence[Sequence[str]],
    places: Mapping[str, Point],
    sizes: Mapping[str, Size],
    gap: float = GAP,
    stretch: float = 1.0,
) -> dict[str, Point]:
    made: dict[str, Point] = {}
    left = 0.0
    for names in parts:
        west, north, east, _ = _box(names, places, sizes)
        for name in names:
            x, y = places[name]
            made[name] = (float(round(x - west + left)), float(round((y - north) * stretch)))
        left += east - west + gap
    return made


def fitting_scale(places: Mapping[str, Point], sizes: Mapping[str, Size], cell: Cell = CELL) -> float:
    """Return the scale at which all nodes fit into a cell, at most 1."""
    if not places:
        return 1.0
    west, north, east, south = _box(list(places), places, sizes)
    return min(1.0, cell[0] / (east - west), cell[1] / (south - north))


def _box(
    names: Sequence[str], places: Mapping[str, Point], sizes: Mapping[str, Size]
) -> tuple[float, float, float, float]:
    wests = [places[name][0] - sizes[name].width / 2 for name in names]
    easts = [places[name][0] + sizes[name].width / 2 for name in names]
    spans = [_span(name, places, sizes) for name in names]
    return min(wests), min(top for top, _ in spans), max(easts), max(bottom for _, bottom in spans)
