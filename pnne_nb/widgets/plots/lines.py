"""Styles lines as the plots of loss and metrics draw them."""

from __future__ import annotations

from typing import Any, Final

import bqplot

from pnne_nb.widgets.plots.curves import Floats
from pnne_nb.widgets.plots.figures import drawable
from pnne_nb.widgets.plots.palette import PALETTE

TRAINING: Final = ("training", PALETTE[0])
VALIDATION: Final = ("validation", PALETTE[1])

MAX_MARKED: Final = 60
"""Points of a line that are marked: dots that touch each other are a fat line."""


def lines(scales: dict[str, bqplot.Scale], colours: list[str], **style: Any) -> bqplot.Lines:
    """A line, or several over the same points, one for each colour."""
    return bqplot.Lines(x=[], y=[], scales=scales, colors=colours, **{"stroke_width": 1.8, **style})


def dotted(scales: dict[str, bqplot.Scale], colour: str) -> bqplot.Lines:
    """A line with a dot at each point, those at the edge of the plot as a whole."""
    return lines(scales, [colour], marker="circle", marker_size=20, apply_clip=False)


def set_line(line: bqplot.Lines, x: Floats, y: Floats) -> None:
    """Draw the points (x, y), if there are any."""
    if x.size:
        with line.hold_sync():
            line.x = drawable(x)
            line.y = drawable(y)


def set_dotted(line: bqplot.Lines, x: Floats, y: Floats) -> None:
    """Draw the points (x, y) with a dot at each, as long as the dots can be told apart."""
    line.marker = "circle" if x.size <= MAX_MARKED else None
    set_line(line, x, y)
