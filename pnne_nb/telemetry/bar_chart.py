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
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="12" fill="currentColor"><title>{escape(title)}</title>'
        f'<text x="0" y="14">{escape(title)}</text>{parts}</svg>'
    )


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
