"""Draws the explorer's graph as SVG for saved notebooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Final

from pnne_nb.graph.layout.texts import fitted
from pnne_nb.graph.render.colours import mix
from pnne_nb.graph.render.svg import ThemeName, require_theme
from pnne_nb.protocol.control_messages import PageTheme
from pnne_nb.widgets.explorer.canvas import FAR, HEAT, INKS, classes, fills
from pnne_nb.widgets.explorer.view import HEADER, Box, ExplorerPicture

_MARGIN: Final = 18.0
_ROW: Final = 17.0
"""Height of a line of words, in pixels."""
_ASIDE: Final = 120.0
"""Pixels by which an edge runs around the boxes between its ends."""
_GROUND: Final[dict[PageTheme, str]] = {"light": "#ffffff", "dark": "#1e1e1e"}
_ALARM: Final = "#d1495b"


def graph_svg(
    picture: ExplorerPicture, marks: Mapping[str, Collection[str]], chosen: str, lines: Sequence[str], theme: ThemeName
) -> str:
    """Draw the boxes and edges that the explorer shows.

    Args:
        picture: The boxes and edges.
        marks: Further classes of boxes by key: ``"alarm"``, ``"uncalled"``.
        chosen: Key of the marked box; ``""`` for none.
        lines: Lines of text above the graph; the first is the title.
        theme: ``"light"`` or ``"dark"``; ``"auto"`` follows the reader's system.

    Raises:
        ArgumentError: If `theme` is unknown.
    """
    require_theme(theme)
    left = min((box.center[0] - box.size.width / 2 for box in picture.boxes), default=0.0) - _MARGIN
    right = max((box.center[0] + box.size.width / 2 for box in picture.boxes), default=0.0) + _MARGIN
    right = max(right, left + 480.0)
    top = min((box.center[1] - box.size.height / 2 for box in picture.boxes), default=0.0) - _MARGIN
    bottom = max((box.center[1] + box.size.height / 2 for box in picture.boxes), default=0.0) + _MARGIN
    first = top - _ROW * len(lines)
    by_key = {box.key: box for box in picture.boxes}
    words = "".join(
        f'<text class="{"title" if row == 0 else "words"}" x="{left + _MARGIN:.1f}" y="{first + _ROW * (row + 1):.1f}">'
        f"{escape(fitted(line, right - left - 2 * _MARGIN, 13 if row == 0 else 12))}</text>"
        for row, line in enumerate(lines)
    )
    edges = "".join(_edge(by_key[source], by_key[target]) for source, target in picture.edges)
    drawn = {box.key: _box(box, marks.get(box.key, ()), chosen=box.key == chosen) for box in picture.boxes}
    # Edges are above open layers and below all other boxes.
    opened = "".join(drawn[box.key] for box in picture.boxes if box.kind == "open")
    boxes = "".join(drawn[box.key] for box in picture.boxes if box.kind != "open")
    first -= _MARGIN / 2
    frame = f'x="{left:.1f}" y="{first:.1f}" width="{right - left:.1f}" height="{bottom - first:.1f}"'
    sheet = _rules(picture, "light" if theme == "auto" else theme)
    if theme == "auto":
        sheet += f"@media(prefers-color-scheme:dark){{{_rules(picture, 'dark')}}}"
    view = f"{left:.1f} {first:.1f} {right - left:.1f} {bottom - first:.1f}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{right - left:.0f}" height="{bottom - first:.0f}" '
        f'viewBox="{view}" font-family="system-ui, sans-serif" font-size="12">'
        f"<title>{escape(lines[0])}</title><desc>{escape(' '.join(lines[1:]))}</desc>"
        f"<style>{sheet}</style>"
        f'<rect class="ground" {frame}/>{words}{opened}<g class="edges">{edges}</g>{boxes}</svg>'
    )


def _rules(picture: ExplorerPicture, theme: PageTheme) -> str:
    ink, line, mark = INKS[theme]
    categories = dict.fromkeys(box.category for box in picture.boxes if box.category is not None)
    rules = {
        ".ground": f"fill:{_GROUND[theme]}",
        "text": f"fill:{ink};text-anchor:middle",
        ".title": "font-weight:600;font-size:13px;text-anchor:start",
        ".words": "text-anchor:start",
        ".edges path": f"fill:none;stroke:{line};stroke-width:1.4",
        ".edges .head": f"fill:{line};stroke:none",
        ".bold": "font-weight:600",
        ".open": f"fill:{ink};fill-opacity:.05;stroke:{line}",
        **{
            f".{kind}": f"fill:{fill};stroke:{border};stroke-width:1.2"
            for kind, (fill, border) in fills(theme, categories).items()
        },
        ".uncalled": "opacity:.55;stroke-dasharray:4 3",
        ".alarm": f"stroke:{_ALARM};stroke-width:3",
        ".chosen": f"stroke:{mark};stroke-width:3.5",
    }  # fmt: skip
    cold, hot = HEAT[theme]
    for box in picture.boxes:
        if box.heat is not None:
            rules[f".heat{_degree(box)}"] = f"fill:{mix(_degree(box) / 10, hot, cold)};stroke:{line}"
    return "".join(f"{selector}{{{rule}}}" for selector, rule in rules.items())


def _degree(box: Box) -> int:
    return round(10 * (box.heat or 0.0))


def _box(box: Box, marks: Collection[str], *, chosen: bool) -> str:
    width, height = box.size
    x, y = box.center[0] - width / 2, box.center[1] - height / 2
    names = [name if name != "heat" else f"heat{_degree(box)}" for name in classes(box)]
    names += [*marks, *(["chosen"] if chosen else [])]
    radius = height / 2 if box.kind == "join" else 6
    rows = box.label.splitlines()
    start = y + HEADER - 8 if box.kind == "open" else box.center[1] + 4.5 - (len(rows) - 1) * 8
    bold = ' class="bold"' if box.kind in ("open", "closed") else ""
    text = "".join(
        f'<text{bold} x="{box.center[0]:.1f}" y="{start + 16 * row:.1f}">{escape(line)}</text>'
        for row, line in enumerate(rows)
    )
    return (
        f'<g><title>{escape(box.key)}</title><rect class="{" ".join(names)}" x="{x:.1f}" y="{y:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"/>{text}</g>'
    )


def _edge(source: Box, target: Box) -> str:
    """Return an arrow between the sides of two boxes that face each other."""
    (x1, y1), (x2, y2) = source.center, target.center
    down = y2 - y1 - (source.size.height + target.size.height) / 2
    across = abs(x2 - x1) - (source.size.width + target.size.width) / 2
    if down >= 0 or down >= across:
        y1, y2 = y1 + source.size.height / 2, y2 - target.size.height / 2
        bend = max(12.0, abs(y2 - y1) / 2)
        aside = _ASIDE if down > FAR else 0.0
        path = f"M{x1:.1f} {y1:.1f}C{x1 - aside:.1f} {y1 + bend:.1f} {x2 - aside:.1f} {y2 - bend:.1f} {x2:.1f} {y2 - 5:.1f}"
        head = f"M{x2:.1f} {y2:.1f}l-4 -7h8z"
    else:
        way = 1 if x2 > x1 else -1
        x1, x2 = x1 + way * source.size.width / 2, x2 - way * target.size.width / 2
        bend = way * max(12.0, abs(x2 - x1) / 2)
        path = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2 - 5 * way:.1f} {y2:.1f}"
        head = f"M{x2:.1f} {y2:.1f}l{-7 * way} -4v8z"
    return f'<path d="{path}"/><path class="head" d="{head}"/>'
