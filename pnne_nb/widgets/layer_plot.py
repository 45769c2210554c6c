"""The figure that ``Inspector.plot`` shows: how the elements of one captured tensor are distributed."""

from __future__ import annotations

import bqplot
import numpy as np

from pnne_nb.inspector.drawing import LayerView
from pnne_nb.widgets.figures import PALETTE, NumberAxis, figure


def draw_layer(view: LayerView) -> bqplot.Figure:
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
    drawn = figure([steps], [x.axis, y.axis], height=280)
    drawn.fig_margin = {**drawn.fig_margin, "top": 42}
    drawn.title = _title(view)
    return drawn


def _title(view: LayerView) -> str:
    place = f"{view.layer} ({view.kind})" if view.layer else view.kind
    what = view.quantity.replace("_", " ") + (f" {view.label}" if view.label else "")
    numbers = view.statistics
    odd = f", {numbers.nan} NaN, {numbers.inf} infinite" if numbers.nan or numbers.inf else ""
    return f"{place}: {what}, mean {numbers.mean:.3g}, std {numbers.std:.3g}{odd}"
