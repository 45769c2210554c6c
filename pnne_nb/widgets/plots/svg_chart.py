"""Draws line charts as SVG, for saved notebooks without scripts; the colours and round numbers of every plot."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from pnne_nb.graph.layout.texts import fitted
from pnne_nb.graph.render.svg import ThemeName, require_theme
from pnne_nb.widgets.host.static_picture import Pictured, Still

PALETTE: Final = ("#2f86c9", "#d07000", "#1a9871", "#b565c4", "#d1495b", "#1b93a5", "#8a8a10", "#7f7f7f")
"""Colours that colour-blind people can distinguish, with a contrast of at least 3:1 in both themes of JupyterLab."""

TRAINING_COLOUR: Final = PALETTE[0]
VALIDATION_COLOUR: Final = PALETTE[1]


_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_LABELS = 6
"""Labels of a logarithmic axis, at most."""
_FEW = 3
"""Powers of ten that a logarithmic axis may span to have values between them."""


def linear_ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Round, evenly spaced values from at or below `low` to at or above `high`.

    Args:
        low: Least value to show; finite.
        high: Greatest value to show; finite and not less.
        whole: Whether only whole numbers make sense.
    """
    if high <= low:
        margin = 1.0 if whole or low == 0 else abs(low) * 0.1
        low, high = low - (0.0 if whole else margin), low + margin
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in _STEPS if power * factor >= rough * (1 - 1e-9))
    if whole:
        step = float(max(1, math.ceil(step)))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    # Multiples written out, not summed up: 0.1 + 0.2 is not a tick that anybody wants to read.
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round values from at or below `low` to at or above `high`, for a logarithmic scale.

    Of a wide range powers of ten, thinned out when there are more than six; of a narrower one 1, 2, 5, 10, 20 …,
    because whole powers would leave most of the axis empty.

    Args:
        low: Least value to show; positive.
        high: Greatest value to show; finite.
    """
    first = math.floor(math.log10(low) + 1e-9)
    last = max(first + 1, math.ceil(math.log10(high) - 1e-9))
    if last - first <= _FEW:
        powers = range(first, last)
        fine = [float(f"{factor}e{power}") for power in powers for factor in (1, 2, 5)] + [float(f"1e{last}")]
        # Two intervals at least, or it is no axis.
        begin = min(bisect_right(fine, low * (1 + 1e-9)) - 1, len(fine) - 3)
        end = max(bisect_left(fine, high * (1 - 1e-9)), begin + 2)
        if end - begin < _LABELS:
            return fine[begin : end + 1]
    stride = -(-(last - first) // (_LABELS - 1))
    return [float(f"1e{first + index * stride}") for index in range(-(-(last - first) // stride) + 1)]


_COLOURS: Final = {
    "light": {"ground": "#ffffff", "text": "#333333", "quiet": "#5c5c5c", "grid": "#e3e3e3"},
    "dark": {"ground": "#1e1e1e", "text": "#e6e6e6", "quiet": "#b0b0b0", "grid": "#3a3a3a"},
}
_WIDTH, _HEIGHT = 420, 260
"""Of one panel, in pixels."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 20, 44, 42
"""Around the axes of a panel."""
_MARGIN: Final = 14
_ROW: Final = 17
"""Height of a line of words above the panels."""
_FACTS: Final = 12
"""Lines of words that are drawn, at most; the list beneath has all."""


class ChartLine(NamedTuple):
    """One curve.

    Attributes:
        label: For the legend; "" for a curve that belongs to another one.
        x: `[n]`, rising.
        y: `[n]`; what is not finite is a gap.
        colour: For both themes.
        dots: Whether the points are marked.
        faint: Whether it stands back behind another one.
        filled: Whether the area below it is filled.
    """

    label: str
    x: NDArray[np.floating]
    y: NDArray[np.floating]
    colour: str
    dots: bool = False
    faint: bool = False
    filled: bool = False


def scattered(label: str, x: NDArray[np.floating], y: NDArray[np.floating], colour: str) -> ChartLine:
    """Return points `[n]` without a line: there is a gap behind each, and a point between gaps is drawn as a dot."""
    return ChartLine(label, x.repeat(2), np.stack([y, np.full_like(y, np.nan)], 1).ravel(), colour)


class Ground(NamedTuple):
    """A picture that fills a part of a panel, behind its lines.

    Attributes:
        address: As a data URL.
        x: Its left and its right end.
        y: Its lower and its upper end.
    """

    address: str
    x: tuple[float, float]
    y: tuple[float, float]


class Panel(NamedTuple):
    """One pair of axes.

    Attributes:
        title: Above them.
        x_label: Below them.
        lines: What is drawn.
        log: Whether the vertical axis is logarithmic.
        marks: Where a dashed vertical line stands.
        counts: Whether the horizontal axis counts something from 0.
        log_x: Whether the horizontal axis is logarithmic.
        zero: Whether the vertical axis begins at 0.
        ground: What lies behind the lines, or None.
    """

    title: str
    x_label: str
    lines: Sequence[ChartLine]
    log: bool = False
    marks: Sequence[float] = ()
    counts: bool = True
    log_x: bool = False
    zero: bool = False
    ground: Ground | None = None


@final
class Chart(Pictured):
    """A grid of panels, which a notebook shows and saves."""

    def __init__(self, title: str, panels: Sequence[Panel], facts: Sequence[str] = ()) -> None:
        self._title = title
        self._panels = tuple(panels)
        self._facts = tuple(facts)

    def __repr__(self) -> str:
        return f"{self._title}: {', '.join(panel.title for panel in self._panels)}"

    def _mime_(self) -> tuple[str, str]:
        """Return what marimo shows."""
        return "text/html", self.to_html()

    def still(self) -> Still:
        """Title, facts, and the panels."""
        return Still(self._title, f"{self._title}. {' '.join(self._facts)}".strip(), self._facts, self._svg)

    def _svg(self, theme: ThemeName) -> str:
        require_theme(theme)
        columns = max(1, min(2, len(self._panels)))
        rows = -(-len(self._panels) // columns)
        words = _words(self._title, self._facts, columns * _WIDTH)
        top = words.count("<text") * _ROW + _MARGIN
        width, height = columns * _WIDTH, top + rows * _HEIGHT
        body = "".join(
            f'<g transform="translate({index % columns * _WIDTH} {top + index // columns * _HEIGHT})">{_panel(panel)}</g>'
            for index, panel in enumerate(self._panels)
        )
        light, dark = (
            ";".join(f"--{name}:{colour}" for name, colour in colours.items()) for colours in _COLOURS.values()
        )
        variables = f"<style>.chart{{{light}}}@media(prefers-color-scheme:dark){{.chart{{{dark}}}}}</style>"
        drawn = (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="12">'
            f"<title>{escape(self._title)}</title><desc>{escape(' '.join(self._facts))}</desc>"
            f'{variables if theme == "auto" else ""}<g class="chart">'
            f'<rect width="{width}" height="{height}" fill="var(--ground)"/>{words}{body}</g></svg>'
        )
        if theme != "auto":
            # Written out: what paints pictures without a browser knows no variables.
            for name, colour in _COLOURS[theme].items():
                drawn = drawn.replace(f"var(--{name})", colour)
        return drawn

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self.to_html(), "image/svg+xml": self.to_svg()}


def _words(title: str, facts: Sequence[str], width: int) -> str:
    """Return the title, and the facts below it."""
    more = [*facts[:_FACTS], *([f"… and {len(facts) - _FACTS} more lines"] if len(facts) > _FACTS else [])]
    head = escape(fitted(title, width - 2 * _MARGIN, 14))
    parts = [f'<text x="{_MARGIN}" y="{_ROW + 3}" font-size="14" font-weight="600" fill="var(--text)">{head}</text>']
    for row, line in enumerate(more, 2):
        said = escape(fitted(line, width - 2 * _MARGIN, 12))
        parts.append(f'<text x="{_MARGIN}" y="{row * _ROW + 4}" fill="var(--quiet)">{said}</text>')
    return "".join(parts)


def _panel(panel: Panel) -> str:
    place = _placed(panel)
    below, end = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = [_heading(panel)]
    if panel.ground is not None:
        (left, right), (low, high) = panel.ground.x, panel.ground.y
        parts.append(
            f'<image href="{panel.ground.address}" x="{place.x(left):.1f}" y="{place.y(high):.1f}" preserveAspectRatio="none" '
            f'width="{place.x(right) - place.x(left):.1f}" height="{place.y(low) - place.y(high):.1f}"/>'
        )
    for tick in place.up:
        y = f"{place.y(tick):.1f}"
        parts.append(f'<line x1="{_LEFT}" x2="{end}" y1="{y}" y2="{y}" stroke="var(--grid)"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y}" dy=".32em" text-anchor="end" fill="var(--quiet)">{_short(tick)}</text>'
        )
    for x in (f"{place.x(mark):.1f}" for mark in panel.marks):
        dashed = 'stroke="var(--quiet)" stroke-dasharray="4 3"'
        parts.append(f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{below}" {dashed}/>')
    parts += [_line(line, place) for line in panel.lines]
    labels = [(f"{place.x(tick):.1f}", below + 16, _short(tick)) for tick in place.across]
    labels.append((f"{(_LEFT + end) / 2}", _HEIGHT - 8, escape(panel.x_label)))
    parts += [f'<text x="{x}" y="{y}" text-anchor="middle" fill="var(--quiet)">{text}</text>' for x, y, text in labels]
    return "".join(parts)


def _placed(panel: Panel) -> _Place:
    """Return the axes of a panel, around its lines."""
    drawn = [*panel.lines, *([] if panel.ground is None else [panel.ground])]
    x, y = (np.concatenate([np.zeros(0), *(getattr(part, name) for part in drawn)]) for name in "xy")
    y = y[np.isfinite(y) & ((y > 0) | (not panel.log))]
    x = x[np.isfinite(x) & ((x > 0) | (not panel.log_x))]
    left, right = (float(x.min()), float(x.max())) if x.size else (0.1, 1.0)
    across = (
        log_ticks(left, right)
        if panel.log_x
        else linear_ticks(0.0 if panel.counts else left, right, whole=panel.counts)
    )
    low, high = (float(y.min()), float(y.max())) if y.size else ((0.1, 1.0) if panel.log else (0.0, 1.0))
    up = log_ticks(low, high) if panel.log else linear_ticks(0.0 if panel.zero else low, high)
    return _Place(across, up, panel.log_x, panel.log)


def _heading(panel: Panel) -> str:
    parts = [f'<text x="{_LEFT}" y="18" font-weight="600" fill="var(--text)">{escape(panel.title)}</text>']
    left = _LEFT
    for line in panel.lines:
        if not line.label:
            continue
        parts.append(f'<rect x="{left}" y="30" width="12" height="3" fill="{line.colour}"/>')
        parts.append(f'<text x="{left + 16}" y="36" font-size="11" fill="var(--quiet)">{escape(line.label)}</text>')
        left += 30 + 7 * len(line.label)
    return "".join(parts)


class _Place(NamedTuple):
    """Where numbers stand in a panel."""

    across: Sequence[float]
    up: Sequence[float]
    log_x: bool
    log: bool

    def x(self, value: float) -> float:
        return _LEFT + _share(value, self.across, log=self.log_x) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - _share(value, self.up, log=self.log) * (_HEIGHT - _TOP - _BOTTOM)


def _share(value: float, ticks: Sequence[float], *, log: bool) -> float:
    """Return how far along an axis a number stands, 0 at its first tick and 1 at its last."""
    low, high, at = (math.log10(one) if log else one for one in (ticks[0], ticks[-1], value))
    return (at - low) / (high - low)


def _line(line: ChartLine, place: _Place) -> str:
    style = f'fill="none" stroke="{line.colour}" stroke-width="{1 if line.faint else 2}" opacity="{0.4 if line.faint else 1}"'
    parts, dots = [], []
    for run in _runs(line, place):
        at = [f"{place.x(x):.1f},{place.y(y):.1f}" for x, y in run]
        if line.filled:
            ground = _HEIGHT - _BOTTOM
            closed = [f"{place.x(run[0][0]):.1f},{ground}", *at, f"{place.x(run[-1][0]):.1f},{ground}"]
            parts.append(f'<polygon points="{" ".join(closed)}" fill="{line.colour}" opacity="0.6"/>')
        parts.append(f'<polyline points="{" ".join(at)}" stroke-linejoin="round" {style}/>')
        if line.dots or len(run) == 1:
            dots += [
                f'<circle cx="{place.x(x):.1f}" cy="{place.y(y):.1f}" r="3" fill="{line.colour}"/>' for x, y in run
            ]
    return "".join(parts + dots)


def _runs(line: ChartLine, place: _Place) -> Iterator[list[tuple[float, float]]]:
    """Yield the parts of a line between its gaps."""
    run: list[tuple[float, float]] = []
    for x, y in zip(line.x.tolist(), line.y.tolist(), strict=True):
        if math.isfinite(y) and (y > 0 or not place.log) and (x > 0 or not place.log_x):
            run.append((x, y))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _short(tick: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(tick) >= size:
            return f"{tick / size:g}{unit}"
    return f"{tick:g}"
