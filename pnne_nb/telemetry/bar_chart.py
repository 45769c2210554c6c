"""Draws figures with their intervals as bars, in an SVG picture that needs neither a widget nor a library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import final

LEFT, LONGEST, RIGHT = 220, 330, 90
"""Pixels for names, for the longest bar, and for figures."""

ROW, TOP = 24, 30
"""Pixels from one bar to the next, and above the first one."""


@final
@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    Attributes:
        name: What it stands for.
        value: Its length, at least 0.
        low: Lower end of the interval.
        high: Upper end of the interval.
        text: The figure as it is shown.
        strong: Whether it stands out.
    """

    name: str
    value: float
    low: float
    high: float
    text: str
    strong: bool = False


def bar_chart(title: str, bars: Sequence[Bar]) -> str:
    """Return an SVG picture of horizontal bars, each with its interval and its figure; text has the page's colour."""
    longest = max((bar.high for bar in bars), default=0.0) or 1.0
    width, height = LEFT + LONGEST + RIGHT, TOP + 10 + ROW * len(bars)
    parts = "".join(_drawn(bar, longest, TOP + ROW * place) for place, bar in enumerate(bars))
    return _svg(title, width, height, f'<text x="0" y="14">{escape(title)}</text>{parts}')


def _drawn(bar: Bar, longest: float, top: int) -> str:
    low, end, high = (LEFT + LONGEST * each / longest for each in (bar.low, bar.value, bar.high))
    middle = top + 8
    weight, opacity = ("bold", 0.9) if bar.strong else ("normal", 0.35)
    return (
        f'<text x="0" y="{top + 12}" font-weight="{weight}">{escape(bar.name)}</text>'
        f'<rect x="{LEFT}" y="{top}" width="{max(end - LEFT, 1):.1f}" height="16" fill="#1f77b4" fill-opacity="{opacity}"/>'
        f'<path d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8M{high:.1f} {middle - 4}v8" '
        f'stroke="currentColor" fill="none"/>'
        f'<text x="{LEFT + LONGEST + 12}" y="{top + 12}">{escape(bar.text)}</text>'
    )


@final
@dataclass(frozen=True, slots=True)
class Column:
    """One figure of every row, with a scale of its own.

    Attributes:
        title: Its name.
        bars: One for each row; None where there is no figure.
    """

    title: str
    bars: Sequence[Bar | None]


@final
@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table of bars.

    Attributes:
        name: What it stands for.
        text: What is said below its name, or instead of all figures if it has none.
        strong: Whether it stands out.
    """

    name: str
    text: str
    strong: bool = False


CELL, CELL_GAP, TALL = 112, 14, 38
"""Pixels of the longest bar of a column, between two columns, and from one row to the next."""


def bar_table(title: str, rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """Return an SVG picture of a table: in each cell a figure, its bar and its interval; text has the page's colour."""
    width, head = LEFT + len(columns) * (CELL + CELL_GAP) + CELL_GAP, 52
    parts = [f'<text x="0" y="14" font-weight="bold">{escape(title)}</text>']
    places = [LEFT + number * (CELL + CELL_GAP) for number in range(len(columns))]
    for left, column in zip(places, columns, strict=True):
        parts.append(f'<text x="{left}" y="40" fill-opacity="0.75">{escape(column.title)}</text>')
    for number, row in enumerate(rows):
        top = head + TALL * number
        weight = "bold" if row.strong else "normal"
        parts.append(f'<path d="M0 {top - 4}H{width}" stroke="currentColor" stroke-opacity="0.2"/>')
        parts.append(f'<text x="0" y="{top + 11}" font-weight="{weight}">{escape(row.name)}</text>')
        cells = [(left, column.bars[number], column) for left, column in zip(places, columns, strict=True)]
        empty = not any(bar for _, bar, _ in cells)
        parts.append(
            f'<text x="{LEFT if empty else 0}" y="{top + (11 if empty else 26)}" font-size="{11 if empty else 10}" '
            f'fill-opacity="0.75">{escape(row.text)}</text>'
        )
        for left, bar, column in cells:
            if bar is not None:
                parts.append(_cell(bar, left, top, max(each.high for each in column.bars if each is not None)))
    return _svg(title, width, head + TALL * len(rows), "".join(parts), ' style="max-width:100%;height:auto"')


def _svg(title: str, width: int, height: int, content: str, style: str = "") -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="12" fill="currentColor"{style}><title>{escape(title)}</title>'
        f"{content}</svg>"
    )


def _cell(bar: Bar, left: int, top: int, longest: float) -> str:
    low, end, high = (left + CELL * each / (longest or 1.0) for each in (bar.low, bar.value, bar.high))
    middle, opacity = top + 22, 0.9 if bar.strong else 0.35
    weight = "bold" if bar.strong else "normal"
    interval = (
        ""
        if bar.low == bar.high
        else f'<path d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 3}v6M{high:.1f} {middle - 3}v6" '
        'stroke="currentColor" fill="none"/>'
    )
    return (
        f'<text x="{left}" y="{top + 11}" font-weight="{weight}">{escape(bar.text)}</text>'
        f'<rect x="{left}" y="{middle - 4}" width="{max(end - left, 1):.1f}" height="8" fill="#1f77b4" '
        f'fill-opacity="{opacity}"/>{interval}'
    )
