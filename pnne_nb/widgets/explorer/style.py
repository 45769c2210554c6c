"""The explorer's colours for the light and the dark theme; layers have their colours of the editor.

They are explicit, because the graph is painted on a canvas, where CSS variables do not work.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pnne_nb.graph.render.colours import DARK, LIGHT
from pnne_nb.graph.schema.categories import Category
from pnne_nb.protocol.control_messages import PageTheme

_PLAIN: Final = {
    "closed": ("#e6eaf0", "#333a45", "#6b7a90"),
    "more": ("#f4f4f4", "#2a2a2a", "#8a8a8a"),
    "end": ("#ffffff", "#1b1b1b", "#8a8a8a"),
    "join": ("#ffffff", "#1b1b1b", "#8a8a8a"),
}
"""Boxes other than leaf layers: fill in the light theme, fill in the dark theme, border."""

INKS: Final[dict[PageTheme, tuple[str, str, str]]] = {
    "light": ("#1f2328", "#8d939c", "#1167b1"),
    "dark": ("#e8eaed", "#8d939c", "#6cb6f5"),
}
"""Colours of text, of edges, and of the selected layer's border."""

HEAT: Final[dict[PageTheme, tuple[str, str]]] = {"light": ("#fffaf3", "#f0973a"), "dark": ("#26211c", "#a85400")}
"""Colours of a layer that takes nothing, and of the one that takes the most."""


def fills(theme: PageTheme, categories: Iterable[Category]) -> dict[str, tuple[str, str]]:
    """Return fill and border of boxes by class, without open layers."""
    colours = DARK if theme == "dark" else LIGHT
    plain = {kind: (night if theme == "dark" else light, border) for kind, (light, night, border) in _PLAIN.items()}
    return plain | {class_of(category): (colours.tint(category), colours.ink(category)) for category in categories}


def class_of(category: Category) -> str:
    """Return the style class of a category's layers, as a selector can name it."""
    return f"of-{category.name.encode().hex()}"


def style(theme: PageTheme, categories: Iterable[Category], chosen: str | None = None) -> list[dict[str, Any]]:
    """Return the style sheet of the graph.

    Args:
        theme: The theme of the page.
        categories: The categories of the shown layers.
        chosen: Id of the marked box, or None.
    """
    ink, line, mark = INKS[theme]
    cold, hot = HEAT[theme]
    # Of two rules for one box, the later counts.
    plain: dict[str, dict[str, Any]] = {
        "node": {
            "shape": "round-rectangle", "width": "data(width)", "height": "data(height)", "label": "data(label)",
            "color": ink, "font-family": "system-ui, sans-serif", "font-size": "12px", "text-wrap": "wrap",
            "text-valign": "center", "text-halign": "center", "line-height": 1.35, "border-width": 1.2,
            "border-color": line, "background-opacity": 1,
        },
        "node.open": {
            "background-color": ink, "background-opacity": 0.05, "border-color": line, "border-style": "solid",
            "border-width": 1, "text-valign": "top", "text-halign": "center", "text-margin-y": "20px",
            "font-weight": "bold", "padding": "0px",
        },
        "edge": {
            "width": 1.4, "line-color": line, "target-arrow-color": line, "target-arrow-shape": "triangle",
            "arrow-scale": 0.8, "curve-style": "bezier",
        },
        "edge.long": {
            "curve-style": "unbundled-bezier", "control-point-distances": "data(bend)",
            "control-point-weights": "0.5", "line-style": "solid",
        },
    }  # fmt: skip
    coloured = [
        (f"node.{kind}", {"background-color": fill, "border-color": border})
        for kind, (fill, border) in fills(theme, categories).items()
    ]
    marked: dict[str, dict[str, Any]] = {
        "node.heat": {"background-color": f"mapData(heat, 0, 1, {cold}, {hot})", "border-color": line},
        "node.closed": {"font-weight": "bold"},
        "node.join": {"shape": "ellipse", "font-size": "15px"},
        "node.uncalled": {"opacity": 0.55, "border-style": "dashed"},
        "node.alarm": {"border-color": "#d1495b", "border-width": 3},
    }
    if chosen is not None:
        marked[f"#{chosen}"] = {"border-color": mark, "border-width": 3.5}
    return [{"selector": selector, "css": css} for selector, css in (*plain.items(), *coloured, *marked.items())]
