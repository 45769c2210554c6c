"""Breaks a long drawing that runs down into columns side by side, as a newspaper does, so that all of it can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pnne_nb.graph.layout.geometry import Point
from pnne_nb.graph.layout.layered import LayeredEdge, Size

CELL = (780.0, 480.0)
"""Width and height in pixels of what a cell of a notebook shows of a graph."""
MOST = 8
"""Columns."""
GAP = 72.0
"""Pixels between columns: an edge to the next one rises there."""


def columns(places: Mapping[str, Point], sizes: Mapping[str, Size], links: Sequence[LayeredEdge]) -> dict[str, Point]:
    """Return the centres of nodes in as many columns as make them largest in a cell.

    A column ends where few edges go on, near where it should; those that do lead to the head of the next one.

    Args:
        places: Centres in a drawing that runs down.
        sizes: Of the nodes.
        links: Edges between them.
    """
    rows = _rows(places, sizes)
    crossing = _crossing(rows, links)
    best, largest = dict(places), _scale(places, sizes)
    for count in range(2, min(MOST, len(rows)) + 1):
        tried = _side_by_side(_parts(rows, crossing, count, sizes, places), places, sizes)
        if (scale := _scale(tried, sizes)) > largest:
            best, largest = tried, scale
    return best


def _rows(places: Mapping[str, Point], sizes: Mapping[str, Size]) -> list[list[str]]:
    """Return the nodes in rows between which a horizontal line meets none."""
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
    """Count the edges that go on below each row."""
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
    parts: Sequence[Sequence[str]], places: Mapping[str, Point], sizes: Mapping[str, Size]
) -> dict[str, Point]:
    made: dict[str, Point] = {}
    left = 0.0
    for names in parts:
        west, north, east, _ = _box(names, places, sizes)
        made |= {name: (round(places[name][0] - west + left), round(places[name][1] - north)) for name in names}
        left += east - west + GAP
    return made


def _scale(places: Mapping[str, Point], sizes: Mapping[str, Size]) -> float:
    """Return the scale at which all nodes fit into a cell."""
    west, north, east, south = _box(list(places), places, sizes)
    return min(1.0, CELL[0] / (east - west), CELL[1] / (south - north))


def _box(
    names: Sequence[str], places: Mapping[str, Point], sizes: Mapping[str, Size]
) -> tuple[float, float, float, float]:
    wests = [places[name][0] - sizes[name].width / 2 for name in names]
    easts = [places[name][0] + sizes[name].width / 2 for name in names]
    spans = [_span(name, places, sizes) for name in names]
    return min(wests), min(top for top, _ in spans), max(easts), max(bottom for _, bottom in spans)
