"""The common style of all plots: figures, axes that end on round numbers, lines, and headings.

A legend inside a bqplot figure lies on the data, so the heading above has the legend.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, final

import bqplot
import ipywidgets
import numpy as np
from numpy.typing import NDArray

from pnne_nb.widgets.host.displays import close_parts
from pnne_nb.widgets.plots.curves import Floats
from pnne_nb.widgets.plots.svg_chart import PALETTE, linear_ticks, log_ticks

GRID: Final = "#8080802e"
HEIGHT: Final = 210
"""Height of a figure in pixels."""
WORDS: Final = 32
"""Height in pixels of two lines of text below a figure; js/src/controls/controls.css reserves as much."""
UNMEASURED: Final = "measured while the training runs"
"""Text of an empty plot of a training that had ended before it was observed."""
FILLED: Final = 0.6
"""Least share of an axis that the data fill; otherwise the axis becomes shorter."""
TRAINING: Final = ("training", PALETTE[0])
VALIDATION: Final = ("validation", PALETTE[1])

TEXT_COLOUR: Final = "var(--jp-ui-font-color1, #767676)"
"""The colour of labels and titles: the page's own, where bqplot would take orange on a dark page."""

MAX_MARKED: Final = 60
"""Most points of a line that are marked with dots, which must not touch each other."""


@final
class NumberAxis:
    """A scale and its axis, which follow the data in round steps and stay while the data fill most of them.

    An axis that moved with every frame could not be read, and would take the browser longer than the curve does.

    Args:
        label: What the axis measures.
        vertical: Whether it stands at the left.
        log: Whether the scale is logarithmic.
        whole: Whether only whole numbers make sense.
        zero: Whether the axis always begins at 0.
    """

    def __init__(
        self, label: str, *, vertical: bool = False, log: bool = False, whole: bool = False, zero: bool = False
    ) -> None:
        self._log = log
        self._whole = whole
        self._zero = zero
        low, high = (0.1, 1.0) if log else (0.0, 1.0)
        self._shown = self._ticks(low, high)
        self._fitted = False
        kind = bqplot.LogScale if log else bqplot.LinearScale
        self.scale = kind(min=low, max=high, allow_padding=False)
        self.axis = bqplot.Axis(
            scale=self.scale,
            label=label,
            label_color=TEXT_COLOUR,
            side="left" if vertical else "bottom",
            tick_values=self._shown,
            tick_format="~s" if whole else "~g",
            grid_lines="solid" if vertical else "none",
            grid_color=GRID,
            label_offset="42px" if vertical else "32px",
        )

    def fit(self, values: NDArray[np.floating]) -> None:
        """Fit the axis to all `values` that can be drawn."""
        drawn = values[np.isfinite(values) & (values > 0 if self._log else True)]
        if drawn.size == 0:
            return
        ticks = self._ticks(0.0 if self._zero else float(drawn.min()), float(drawn.max()))
        if ticks == self._shown or (self._fitted and self._covers(ticks)):
            return
        self._shown, self._fitted = ticks, True
        self.axis.tick_values = ticks
        with self.scale.hold_sync():
            # One bound after the other: a scale whose ends meet for a moment is refused.
            self.scale.min, self.scale.max = None, None
            self.scale.min, self.scale.max = ticks[0], ticks[-1]

    def _covers(self, ticks: list[float]) -> bool:
        """Return whether the shown ticks cover `ticks`, and not much more."""
        ends = (self._shown[0], self._shown[-1], ticks[0], ticks[-1])
        low, high, wanted_low, wanted_high = map(math.log10, ends) if self._log else ends
        return low <= wanted_low and wanted_high <= high and wanted_high - wanted_low >= FILLED * (high - low)

    def _ticks(self, low: float, high: float) -> list[float]:
        return log_ticks(low, high) if self._log else linear_ticks(low, high, whole=self._whole)


class Figure(bqplot.Figure):
    """A figure in the common style: quiet grid, labelled axes, no title, as wide as its place.

    Unlike bqplot's, it closes its marks, scales, axes and layout too.

    Args:
        marks: What is drawn.
        axes: The horizontal axis, then the vertical one.
        left: Margin for the labels of the vertical axis, in pixels.
        top: Margin for a title, in pixels.
        height: In pixels.
    """

    def __init__(
        self,
        marks: Sequence[bqplot.Mark],
        axes: Sequence[bqplot.Axis],
        *,
        left: int = 62,
        top: int = 8,
        height: int = HEIGHT,
    ) -> None:
        super().__init__(
            marks=list(marks),
            axes=list(axes),
            fig_margin={"top": top, "bottom": 42, "left": left, "right": 16},
            background_style={"fill": "transparent"},
            title_style={"fill": TEXT_COLOUR, "font-size": "15px"},
            padding_y=0.0,
            display_toolbar=False,
            layout=ipywidgets.Layout(width="100%", min_width="0", height=f"{height}px", margin="0"),
        )

    def close(self) -> None:
        """Close it here and in the browser."""
        close_parts(self)
        super().close()


def heading_html(title: str, keys: Iterable[tuple[str, str]] = (), note: str = "") -> str:
    """Return a heading with its legend, as HTML."""
    swatches = "".join(
        f'<span class="pnne-key"><i style="background:{colour}"></i>{html.escape(name)}</span>' for name, colour in keys
    )
    said = f'<span class="pnne-key">{html.escape(note)}</span>' if note else ""
    return f"<strong>{html.escape(title)}</strong>{swatches}{said}"


def heading(title: str, keys: Iterable[tuple[str, str]] = (), note: str = "") -> ipywidgets.HTML:
    """Return the widget that shows `heading_html`."""
    widget = ipywidgets.HTML(heading_html(title, keys, note))
    widget.add_class("pnne-plot-heading")
    return widget


def words(text: str = "") -> ipywidgets.HTML:
    """Return a widget for text of up to `WORDS` pixels under a figure."""
    widget = ipywidgets.HTML(html.escape(text))
    widget.add_class("pnne-words")
    return widget


def panel(*children: ipywidgets.Widget) -> ipywidgets.VBox:
    """Return a heading and its figure, stacked."""
    return ipywidgets.VBox(list(children), layout=ipywidgets.Layout(margin="0", overflow="hidden"))


def drawable(values: Floats) -> Floats:
    """Return `values` with at least two columns, because bqplot drops a single one: `[..., n]`, n ≥ 2 or 0."""
    return np.repeat(values, 2, axis=-1) if values.shape[-1] == 1 else values


def positive(values: Floats) -> Floats:
    """Return `values` for a logarithmic scale: what is not positive becomes NaN, a gap."""
    return np.where(values > 0, values, np.float32(np.nan))


def lines(scales: dict[str, bqplot.Scale], colours: list[str], **style: Any) -> bqplot.Lines:
    """Return a line, or several over the same points, one for each colour."""
    return bqplot.Lines(x=[], y=[], scales=scales, colors=colours, **{"stroke_width": 1.8, **style})


def dotted(scales: dict[str, bqplot.Scale], colour: str) -> bqplot.Lines:
    """Return a line with a dot at each point, those at the edge of the plot as a whole."""
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
