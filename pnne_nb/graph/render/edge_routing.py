"""Routes an edge: a curve from port to port, around the nodes in its way."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""

CLEARANCE = 16.0
TURN = 20.0
"""Pixels from the ends of an edge that leads back up to its turns; its label has room there."""
BETWEEN = 36.0
"""Pixels between nodes and a rising edge, if there is room: in the middle between two columns."""
BESIDE = 8.0
"""The least distance between a rising edge and a node."""
APART = (8.0, 4.0, 2.0)
"""Pixels between edges side by side that leave different ports: the most for which there is room."""
ASIDE = [sign * step for step in range(9) for sign in (1, -1)][1:]
"""The places that are tried for an edge whose lane is taken, in distances from it."""
LANES = 32
"""How many lanes are tried, the nearest first: each looks at all nodes."""
DETOUR = 4
"""Most points of a curved edge; one with more points is straight from point to point."""
_SAMPLES = 12


def routed(
    start: Point, end: Point, boxes: Sequence[Box], *, own: Sequence[Box] = (), across: bool = False
) -> tuple[Point, ...]:
    """Return the points that an edge passes vertically: its ends, and two beside the nodes in its way.

    An edge that leads back up, as to the head of the next column, has six points in straight lines: down, to a lane beside
    the nodes, up, and to its end. If edges run right (`across`), it passes the points horizontally.
    """
    if across:
        turned, ends = ([(box[1], box[0], box[3], box[2]) for box in those] for those in (boxes, own))
        return tuple((x, y) for y, x in routed(start[::-1], end[::-1], turned, own=ends))
    if end[1] < start[1]:
        return _rising(start, end, boxes, own)
    left, right = sorted((start[0], end[0]))
    # The edge stays between the heights of its ends.
    boxes = [box for box in boxes if start[1] < box[3] and box[1] < end[1]]
    between = [box for box in boxes if left < box[2] and box[0] < right + 1e-6]
    if not any(_crosses(start, end, box) for box in between):
        return start, end
    # Nodes beside the blocking ones must be passed as well.
    top, bottom = min(box[1] for box in between), max(box[3] for box in between)
    # The detour is between the two ends.
    room = max(0.0, min(CLEARANCE, (end[1] - start[1]) / 2))
    top, bottom = max(top, start[1] + room), min(bottom, end[1] - room)
    lanes = [min(box[0] for box in between) - CLEARANCE, max(box[2] for box in between) + CLEARANCE]

    def blocked(lane: float) -> int:
        return sum(
            _meet((lane, top, lane, bottom), box)
            or _crosses(start, (lane, top), box)
            or _crosses((lane, bottom), end, box)
            for box in boxes
        )

    lane, count = _freest(lanes, start, end, blocked)
    if count:
        # Lanes farther away, between other nodes: the one with the fewest nodes in the way.
        beside = [box for box in boxes if box[1] < bottom and top < box[3]]
        lanes += [x for box in beside for x in (box[0] - CLEARANCE, box[2] + CLEARANCE)]
        lane, _ = _freest(lanes, start, end, blocked)
    return start, (lane, top), (lane, bottom), end


def _freest(lanes: Iterable[float], start: Point, end: Point, blocked: Callable[[float], int]) -> tuple[float, int]:
    """Return the lane with the fewest nodes in the way, with their number; of several, the one with the least detour."""
    nearest = sorted(set(lanes), key=lambda x: (abs(x - start[0]) + abs(x - end[0]), x))[:LANES]
    best, fewest = nearest[0], sys.maxsize
    for lane in nearest:
        if (count := blocked(lane)) < fewest:
            best, fewest = lane, count
        if not fewest:
            break
    return best, fewest


def _rising(start: Point, end: Point, boxes: Sequence[Box], own: Sequence[Box]) -> tuple[Point, ...]:
    left, right = sorted((start[0], end[0]))
    between = (left, end[1], right, start[1])
    if not any(_meet(between, box) for box in boxes) and not any(_crosses(start, end, box) for box in own):
        return start, end
    low, high = start[1] + TURN, end[1] - TURN
    obstacles = [box for box in (*boxes, *own) if box[1] <= low and high <= box[3]]

    def blocked(lane: float) -> int:
        pieces = (
            (min(start[0], lane), low, max(start[0], lane), low),
            (lane - BESIDE, high, lane + BESIDE, low),
            (min(end[0], lane), high, max(end[0], lane), high),
        )
        return sum(_meet(piece, box) for piece in pieces for box in obstacles)

    lane, fewest = left - BETWEEN, sys.maxsize
    # Other edges go around a node closer to it.
    for room in (BETWEEN, CLEARANCE) if obstacles else ():
        lanes = [x for box in obstacles for x in (box[0] - room, box[2] + room)]
        other, count = _freest(lanes, start, end, blocked)
        if count < fewest:
            lane, fewest = other, count
        if not fewest:
            break
    return start, (start[0], low), (lane, low), (lane, high), (end[0], high), end


def parted(
    routes: Sequence[tuple[str, Sequence[Point]]], boxes: Sequence[Box], *, across: bool = False
) -> list[tuple[Point, ...]]:
    """Return routes of which no two share a line, unless they leave the same port: the longer one moves, outwards first.

    `routes` are the port that each edge leaves and its points, in the order of the edges' names; `boxes` are all nodes.
    """
    made = [[point[::-1] if across else point for point in points] for _, points in routes]
    sideways = [(box[1], box[0], box[3], box[2]) for box in boxes]
    upright = (sideways, boxes) if across else (boxes, sideways)
    taken = {
        (0, points[0][0], points[0][1], points[1][1], port)
        for (port, _), points in zip(routes, made, strict=True)
        if len(points) == 2 and abs(points[0][0] - points[1][0]) < APART[0]
    }
    # Lanes first: the pieces that lead to them end there.
    pieces = [
        (int(len(points) > DETOUR and place != 2), math.dist(*ends), number, place)
        for number, points in enumerate(made)
        for place, ends in enumerate(pairwise(points[1:-1]), 1)
    ]
    for axis, _, number, place in sorted(pieces):
        points, port = made[number], routes[number][0]
        wanted = points[place][axis]
        low, high = sorted(point[1 - axis] for point in points[place : place + 2])
        others = [
            at for turn, at, start, end, its in taken if turn == axis and its != port and low < end and start < high
        ]
        outward = 1 if wanted >= points[0][axis] else -1
        lane = _free_lane(wanted, outward, others, (low, high), upright[axis])
        for end in (place, place + 1):
            points[end] = (points[end][0], lane) if axis else (lane, points[end][1])
        taken.add((axis, lane, low, high, port))
    return [tuple(point[::-1] if across else point for point in points) for points in made]


def _free_lane(wanted: float, outward: int, others: Sequence[float], span: Point, boxes: Sequence[Box]) -> float:
    """Return the nearest lane that is clear of others and of nodes; the wanted one if there is none."""
    for apart in APART:
        for lane in (wanted + outward * apart * step for step in ASIDE):
            piece = lane - BESIDE / 2, span[0], lane + BESIDE / 2, span[1]
            if any(abs(lane - other) < apart for other in others):
                continue
            if lane == wanted or not any(_meet(piece, box) for box in boxes):
                return lane
    return wanted


def _meet(piece: Box, box: Box) -> bool:
    return piece[0] < box[2] and box[0] < piece[2] + 1e-6 and piece[1] < box[3] and box[1] < piece[3] + 1e-6


def curve(points: Sequence[Point], *, across: bool = False) -> str:
    """Return the SVG path through points that are passed vertically, or horizontally if edges run right."""
    if len(points) > DETOUR:
        return "M" + "L".join(f"{number(x)},{number(y)}" for x, y in points)
    turned = [point[::-1] for point in points] if across else points
    path = f"M{number(points[0][0])},{number(points[0][1])}"
    for (x1, y1), (x2, y2) in pairwise(turned):
        if x1 == x2 and y1 <= y2:
            path += f"{'H' if across else 'V'}{number(y2)}"
        else:
            bend = _bend(y1, y2)
            ends = ((x1, y1 + bend), (x2, y2 - bend), (x2, y2))
            path += "C" + " ".join(
                f"{number(b)},{number(a)}" if across else f"{number(a)},{number(b)}" for a, b in ends
            )
    return path


def middle(points: Sequence[Point]) -> Point:
    """Return the place of an edge's label: the middle of the first piece of a detour, or of the edge."""
    (x1, y1), (x2, y2) = points[0], points[1]
    return ((x1 + x2) / 2, (y1 + y2) / 2)


def number(value: float) -> str:
    """Return a coordinate as text, with two decimals at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _bend(top: float, bottom: float) -> float:
    # React Flow's curve: half the way down, or a wide turn where the target is above.
    distance = bottom - top
    return distance / 2 if distance >= 0 else 6.25 * (-distance) ** 0.5


def _crosses(start: Point, end: Point, box: Box) -> bool:
    bend = _bend(start[1], end[1])
    # Most nodes are beside the points that a curve lies between.
    if max(start[0], end[0]) <= box[0] or box[2] <= min(start[0], end[0]):
        return False
    if max(start[1] + bend, end[1]) <= box[1] or box[3] <= min(start[1], end[1] - bend):
        return False
    # So close to each other that no node of a long edge lies between two.
    samples = max(_SAMPLES, math.ceil(3 * (end[1] - start[1]) / (box[3] - box[1])))
    for step in range(1, samples):
        t = step / samples
        a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3
        x = (a + b) * start[0] + (c + d) * end[0]
        y = a * start[1] + b * (start[1] + bend) + c * (end[1] - bend) + d * end[1]
        if box[0] < x < box[2] and box[1] < y < box[3]:
            return True
    return False
