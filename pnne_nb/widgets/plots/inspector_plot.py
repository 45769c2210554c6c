"""Draws the figure of ``Inspector.plot``: the distribution of one captured tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import bqplot
import numpy as np

from pnne_nb.inspector.capture.capture import LayerView
from pnne_nb.widgets.host.static_picture import Kept, KeptPicture, Pictured, Still
from pnne_nb.widgets.plots.figures import Figure, NumberAxis
from pnne_nb.widgets.plots.svg_chart import PALETTE, Chart, ChartLine, Panel


@final
class LayerFigure(Figure, Kept, Pictured):
    """The figure, with its static picture for a saved notebook.

    Attributes:
        chart: The same histogram, drawn without a browser.
    """

    def __init__(self, mark: bqplot.Mark, axes: Sequence[bqplot.Axis], chart: Chart) -> None:
        super().__init__([mark], axes, top=42, height=280)
        self.chart = chart
        self.add_class("pnne-figure")
        self._kept = KeptPicture(lambda: "a histogram", self.to_html)

    def still(self) -> Still:
        """Return what the histogram shows."""
        return self.chart.still()


def draw_layer(view: LayerView) -> LayerFigure:
    """Draw the histogram of a layer, with its name, mean and spread as the title.

    Args:
        view: What to show; log-spaced bins get a logarithmic axis of magnitudes.
    """
    histogram = view.histogram
    x = NumberAxis("magnitude" if histogram.log else "value", log=histogram.log)
    y = NumberAxis("elements" if histogram.sampled == histogram.total else "sampled elements", vertical=True, zero=True)
    edges = histogram.edges.astype(np.float32)
    counts = histogram.counts.astype(np.float32)
    x.fit(edges)
    y.fit(counts)
    # A filled step line, because bars on a logarithmic axis have no width of their own.
    steps = bqplot.Lines(
        x=edges,
        y=np.append(counts, counts[-1:]),
        scales={"x": x.scale, "y": y.scale},
        interpolation="step-after",
        colors=[PALETTE[2]],
        fill="bottom",
        fill_colors=[PALETTE[2]],
        fill_opacities=[0.6],
    )
    outline = ChartLine("", edges.repeat(2)[1:-1], counts.repeat(2), PALETTE[2], filled=True)
    panel = Panel(y.axis.label, x.axis.label, [outline], counts=False, log_x=histogram.log, zero=True)
    drawn = LayerFigure(steps, [x.axis, y.axis], Chart(_quantity(view), [panel], _facts(view)))
    numbers = view.capture.statistics
    odd = f", {numbers.nan} NaN, {numbers.inf} infinite" if numbers.nan or numbers.inf else ""
    drawn.title = f"{_quantity(view)}, mean {numbers.mean:.3g}, std {numbers.std:.3g}{odd}"
    return drawn


def _facts(view: LayerView) -> list[str]:
    numbers = view.capture.statistics
    return [
        f"{numbers.count:,} values from {numbers.min:.4g} to {numbers.max:.4g}.",
        f"Mean {numbers.mean:.4g}, standard deviation {numbers.std:.4g}, {numbers.zeros:.0%} zeros.",
        *([f"{numbers.nan} NaN, {numbers.inf} infinite."] if numbers.nan or numbers.inf else []),
    ]


def _quantity(view: LayerView) -> str:
    layer, label = view.capture.layer, view.capture.label
    place = f"{layer} ({view.kind})" if layer else view.kind
    return f"{place}: {view.capture.quantity.replace('_', ' ')}{f' {label}' if label else ''}"
