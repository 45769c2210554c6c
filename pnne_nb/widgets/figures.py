"""How every plot looks: one figure style, one palette, and headings that carry the legend.

A legend inside a bqplot figure lies on the data, so ours stands in the heading above it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final

import bqplot
import ipywidgets
import numpy as np

from pnne_nb.widgets.curves import Floats

PALETTE: Final = ("#2f86c9", "#d07000", "#1a9871", "#b565c4", "#d1495b", "#1b93a5", "#8a8a10", "#7f7f7f")
"""Distinct also for colour-blind people; at least 3:1 against white and against JupyterLab's dark background."""

GRID: Final = "#8080802e"
HEIGHT: Final = 210
"""Height of a figure in pixels."""


def figure(
    marks: Sequence[bqplot.Mark],
    *,
    x: bqplot.Scale,
    y: bqplot.Scale,
    x_label: str,
    y_label: str,
    left: int = 58,
    height: int = HEIGHT,
    y_format: str | None = "~g",
    x_format: str | None = "~s",
) -> bqplot.Figure:
    """A figure in the common style: quiet grid, labelled axes, no title, as wide as its place.

    Args:
        left: Margin for the labels of the vertical axis, in pixels.
        height: In pixels.
        x_format: d3 number format of the horizontal axis's ticks; None keeps bqplot's.
        y_format: The same for the vertical axis.
    """
    axes = [
        bqplot.Axis(
            scale=x, label=x_label, tick_format=x_format, num_ticks=6, grid_lines="none", label_offset="30px"
        ),
        bqplot.Axis(
            scale=y,
            label=y_label,
            orientation="vertical",
            tick_format=y_format,
            num_ticks=5,
            grid_color=GRID,
            label_offset=f"{left - 14}px",
        ),
    ]
    return bqplot.Figure(
        marks=list(marks),
        axes=axes,
        fig_margin={"top": 8, "bottom": 42, "left": left, "right": 14},
        background_style={"fill": "transparent"},
        padding_y=0.03,
        display_toolbar=False,
        layout=ipywidgets.Layout(width="100%", min_width="0", height=f"{height}px", margin="0"),
    )


def heading_html(title: str, keys: Iterable[tuple[str, str]] = ()) -> str:
    """A heading with its legend, as HTML.

    Args:
        title: Shown in bold.
        keys: Name and colour of each curve.
    """
    swatches = "".join(
        f'<span class="pnne-key"><i style="background:{colour}"></i>{html.escape(name)}</span>' for name, colour in keys
    )
    return f"<strong>{html.escape(title)}</strong>{swatches}"


def heading(title: str, keys: Iterable[tuple[str, str]] = ()) -> ipywidgets.HTML:
    """The widget that shows `heading_html`."""
    widget = ipywidgets.HTML(heading_html(title, keys))
    widget.add_class("pnne-plot-heading")
    return widget


def panel(*children: ipywidgets.Widget) -> ipywidgets.VBox:
    """A heading and its figure, stacked."""
    return ipywidgets.VBox(list(children), layout=ipywidgets.Layout(margin="0", overflow="hidden"))


def drawable(values: Floats) -> Floats:
    """`values` with at least two columns, because bqplot squeezes a single one away: `[..., n]`, n ≥ 2 or 0."""
    return np.repeat(values, 2, axis=-1) if values.shape[-1] == 1 else values


def positive(values: Floats) -> Floats:
    """`values` for a logarithmic scale: what is not positive becomes NaN, a gap."""
    return np.where(values > 0, values, np.float32(np.nan))
