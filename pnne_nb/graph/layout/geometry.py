"""Estimates the sizes of nodes and the places of their ports, so that a graph can be arranged without a browser.

The browser has the same rule in ``js/src/editor/scene/geometry.ts``; ``tests/cases/geometry.json`` tests both. All lengths are
in pixels of the canvas.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from pnne_nb.graph.schema.spec import Port

WIDTH = 176.0
WIDE = 224.0
"""Width of a card with a text that is cut on a narrow one; neighbours that become wide do not overlap (`NODE_GAP`)."""
HEADER_HEIGHT = 46.0
SUMMARY_HEIGHT = 24.0
LABELS_HEIGHT = 18.0
PORT_WIDTH = 58.0
PORT_LETTER = 7.5
"""Width of a letter of a port's name, as seen from further away."""
PORT_LETTERS = 20
"""Letters of a port's name that are shown."""
COLLAPSED_WIDTH = 148.0
COLLAPSED_HEIGHT = 30.0
COLLAPSED_PORT_WIDTH = 18.0
DOT = 20.0
"""Width and height of a point on an edge."""

LINE_HEIGHT = 16.0
"""Height of each line of text after the first."""

CLEARLY_RIGHT = WIDTH
CLEARLY_DOWN = 60.0
"""Distance between the centres of nodes that follow each other; closer ones are side by side."""

Point = tuple[float, float]


class Geometry(NamedTuple):
    """The size of a node, and the place of each of its ports.

    If edges run down, inputs are on the upper edge and outputs on the lower one, measured from the left edge. If they run
    right (`across`), inputs are at the left and outputs at the right, measured from the upper edge.

    Attributes:
        above: Room for the names of ports above the text.
        below: The same below it.
    """

    width: float
    height: float
    inputs: Mapping[str, float]
    outputs: Mapping[str, float]
    across: bool = False
    above: float = 0.0
    below: float = 0.0

    def input_at(self, port: str) -> Point:
        """Return the position of an input, from the upper left corner."""
        return (0.0, self.inputs[port]) if self.across else (self.inputs[port], 0.0)

    def output_at(self, port: str) -> Point:
        """Return the position of an output, from the upper left corner."""
        return (self.width, self.outputs[port]) if self.across else (self.outputs[port], self.height)


def runs_right(ends: Iterable[tuple[Point, Point]]) -> bool:
    """Return whether a graph is drawn from left to right: more edges go clearly right than clearly down.

    Args:
        ends: The centres of the two nodes of each edge.
    """
    right = down = 0
    for (x1, y1), (x2, y2) in ends:
        right += x2 - x1 >= CLEARLY_RIGHT
        down += y2 - y1 >= CLEARLY_DOWN
    return right > down


def geometry(
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    lines: int,
    wide: bool = False,
    collapsed: bool = False,
    across: bool = False,
) -> Geometry:
    """Return the geometry of a node with these ports, in the order of the ports.

    Args:
        inputs: Names of the input ports.
        outputs: Names of the output ports.
        lines: The number of lines of text below its name.
        wide: Whether its texts need the wide card (`texts.py: is_wide`). Names of ports may widen any card.
        collapsed: Whether it shows only its name; its ports are then close together, without names.
        across: Whether edges run right.
    """
    words = HEADER_HEIGHT + (SUMMARY_HEIGHT + (lines - 1) * LINE_HEIGHT if lines else 0.0)
    most = max(len(inputs), len(outputs))
    named = [not collapsed and needs_labels(names, plain) for names, plain in ((inputs, "input"), (outputs, "output"))]
    labelled = [names if shown else () for names, shown in zip((inputs, outputs), named, strict=True)]
    above = below = 0.0
    if collapsed:
        width, height = COLLAPSED_WIDTH, COLLAPSED_HEIGHT
        if across:
            height = max(height, most * COLLAPSED_PORT_WIDTH)
            below = height - COLLAPSED_HEIGHT
        else:
            width = max(width, most * COLLAPSED_PORT_WIDTH)
    else:
        if across:
            below = max(map(len, labelled)) * LABELS_HEIGHT
            crowd = sum(max(map(_slot, names), default=0.0) for names in labelled)
        else:
            above, below = (LABELS_HEIGHT if shown else 0.0 for shown in named)
            crowd = max(sum(map(_slot, names)) for names in labelled)
        width, height = WIDTH if crowd <= WIDTH and not wide else max(WIDE, crowd), above + words + below

    def places(names: Sequence[str], *, shown: bool) -> dict[str, float]:
        if across and shown:
            return {name: words + (index + 0.5) * LABELS_HEIGHT for index, name in enumerate(names)}
        slots = [_slot(name) if shown else 1.0 for name in names]
        side = (height if across else width) / (sum(slots) or 1.0)
        return {name: (sum(slots[:index]) + slots[index] / 2) * side for index, name in enumerate(names)}

    into, out = places(inputs, shown=named[0]), places(outputs, shown=named[1])
    return Geometry(width, height, into, out, across, above, below)


def _slot(name: str) -> float:
    """Return the width of a port with its name."""
    return max(PORT_WIDTH, 4 + PORT_LETTER * min(len(name), PORT_LETTERS))


def dot(*, across: bool) -> Geometry:
    """Return the geometry of a point on an edge."""
    return Geometry(DOT, DOT, {"input": DOT / 2}, {"output": DOT / 2}, across)


def needs_labels(names: Collection[str], plain: str) -> bool:
    """Return whether the names of ports are shown: a single port with the plain name has no label."""
    return len(names) > 1 or (len(names) == 1 and plain not in names)


def shown_inputs(declared: Sequence[Port], wired: Collection[str]) -> tuple[str, ...]:
    """Return the names of the input ports that a node shows.

    A variadic port shows its connected slots, the gaps between them and one more. Connected inputs that are not declared (a
    property that is connected instead of typed) come last.
    """
    names: list[str] = []
    for port in declared:
        if port.variadic:
            taken = [int(name.rpartition("_")[2]) for name in wired if _is_slot(name, port.name)]
            names.extend(f"{port.name}_{index}" for index in range(max(taken, default=-1) + 2))
        else:
            names.append(port.name)
    known = set(names)
    return (*names, *(name for name in wired if name not in known))


def _is_slot(name: str, port: str) -> bool:
    stem, _, index = name.rpartition("_")
    return stem == port and index.isascii() and index.isdecimal()
