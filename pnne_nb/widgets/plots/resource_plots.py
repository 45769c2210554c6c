"""The dashboard's lower plots: memory use, and the stages of the training's time."""

from __future__ import annotations

from typing import Final, final

import bqplot
import numpy as np

from pnne_nb.process.byte_units import format_bytes
from pnne_nb.telemetry.frames import Frame, MemoryFrame, TimeFrame
from pnne_nb.widgets.plots import figures
from pnne_nb.widgets.plots.curves import CurveTable
from pnne_nb.widgets.plots.plot import Plot
from pnne_nb.widgets.plots.svg_chart import PALETTE

HEIGHT: Final = 166
"""Of these plots below their headings, in pixels: less than of those that show what is learned."""
GIB: Final = 2.0**30
STAGES: Final = {
    "data": "data",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "observe": "watching",
    "validation": "validation",
    "other": "other",
}
"""The stages of a step, as they are called on screen. On a busy machine each lasts longer by the clock than what it takes
of the processor, which is what the control bar says of watching, and the budget is about."""


@final
class MemoryPlot(Plot):
    """Memory over the steps: of the process, and of tensors and the allocator on each accelerator."""

    def __init__(self) -> None:
        self._steps = figures.NumberAxis("step", whole=True)
        self._memory = figures.NumberAxis("GiB", vertical=True, zero=True)
        scales = {"x": self._steps.scale, "y": self._memory.scale}
        self._lines = figures.lines(scales, list(PALETTE))
        self._heading = figures.heading("Memory")
        self.figure = figures.Figure([self._lines], [self._steps.axis, self._memory.axis], height=HEIGHT)
        self.view = figures.panel(self._heading, self.figure)
        self._table: CurveTable | None = None
        self._peaks = ""
        self._changed = False

    def take(self, frame: Frame) -> None:
        """Remember what is in use."""
        if not isinstance(frame, MemoryFrame):
            return
        used = {"process": frame.process / GIB}
        for name, device in frame.devices.items():
            used[name], used[f"{name} reserved"] = device.allocated / GIB, device.reserved / GIB
        if self._table is None:
            self._table = CurveTable(list(used))
        self._table.append(frame.step, used)
        self._peaks = ", ".join(f"{name} peak {format_bytes(device.peak)}" for name, device in frame.devices.items())
        self._changed = True

    def draw(self) -> None:
        """Send the changed curves."""
        if not self._changed or self._table is None:
            return
        self._changed = False
        steps, used = self._table.table()
        title = f"Memory ({self._peaks})" if self._peaks else "Memory"
        self._heading.value = figures.heading_html(title, list(zip(self._table.names, PALETTE, strict=False)))
        self._steps.fit(np.append(steps[-1:], np.float32(0)))
        self._memory.fit(used)
        figures.set_line(self._lines, steps, used)


@final
class TimePlot(Plot):
    """The share of each stage of the training's time, as bars and as text."""

    def __init__(self) -> None:
        names = bqplot.OrdinalScale(domain=list(STAGES.values()), reverse=True)
        percent = figures.NumberAxis("% of the time", zero=True)
        percent.fit(np.array([100.0]))
        self._bars = bqplot.Bars(
            x=list(STAGES.values()),
            y=[0.0] * len(STAGES),
            scales={"x": names, "y": percent.scale},
            orientation="horizontal",
            colors=[PALETTE[0]],
            padding=0.25,
            stroke=None,
            opacities=[0.85],
        )
        stages = bqplot.Axis(scale=names, side="left", grid_lines="none", grid_color=figures.GRID)
        self.figure = figures.Figure([self._bars], [percent.axis, stages], left=76, height=HEIGHT - figures.WORDS)
        self.words = figures.words(f"{figures.UNMEASURED.capitalize()}.")
        self.view = figures.panel(figures.heading("Where the time goes, by the clock"), self.figure, self.words)
        self._latest: TimeFrame | None = None

    def take(self, frame: Frame) -> None:
        """Record the latest shares."""
        if isinstance(frame, TimeFrame) and any(frame.shares.values()):
            self._latest = frame

    def draw(self) -> None:
        """Send the latest shares, if there are new ones."""
        frame, self._latest = self._latest, None
        if frame is None:
            return
        self._bars.y = np.array([100 * frame.shares.get(stage, 0.0) for stage in STAGES], dtype=np.float32)
        self.words.value = frame.words
