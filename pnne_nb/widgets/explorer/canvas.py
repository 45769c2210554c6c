"""Draws the explorer's graph with ipycytoscape, one widget per box and edge, in the editor's colours of layers.

Colours are explicit, because the graph is painted on a canvas, where CSS variables do not work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, final

import ipycytoscape
import ipywidgets

from pnne_nb.graph.render.colours import DARK, LIGHT
from pnne_nb.graph.schema.categories import Category
from pnne_nb.protocol.control_messages import PageTheme
from pnne_nb.widgets.explorer.view import Box, ExplorerPicture
from pnne_nb.widgets.host.displays import answer_while_busy

FAR: Final = 130
"""Distance of two boxes in pixels from which an edge runs around the boxes between them."""

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


@final
class Canvas(ipycytoscape.CytoscapeWidget):
    """A graph widget that also closes the empty graph that ipycytoscape makes first.

    Attributes:
        drawn: Returns the graph as SVG, for a page that cannot load Cytoscape.
    """

    drawn: Callable[[], str]

    def __init__(self, **traits: Any) -> None:
        self.spare: list[ipywidgets.Widget] = []
        self.observe(lambda change: self.spare.append(change["old"]), "graph")
        super().__init__(**traits)

    def close(self) -> None:
        """Close the widget with all its elements."""
        for widget in (*self.graph.nodes, *self.graph.edges, self.graph, self.layout, *self.spare):
            if isinstance(widget, ipywidgets.Widget):
                widget.close()
        super().close()


def identities(picture: ExplorerPicture) -> dict[str, str]:
    """Return the id of each box in the browser, by its key."""
    return {box.key: f"n{index}" for index, box in enumerate(picture.boxes)}


def classes(box: Box) -> list[str]:
    """Return the style classes of a box."""
    found = [box.kind if box.category is None else class_of(box.category)]
    return [*found, "heat"] if box.heat is not None else found


def paint(
    picture: ExplorerPicture,
    marks: Mapping[str, Collection[str]],
    sheet: list[dict[str, Any]],
    clicked: Callable[[dict[str, Any]], None],
) -> Canvas:
    """Return a canvas that shows `picture`.

    Args:
        picture: The boxes and edges.
        marks: Further classes of boxes, by key.
        sheet: The style sheet.
        clicked: Called with the box that was clicked.
    """
    names = identities(picture)
    ranks = {box.key: box.center[1] for box in picture.boxes}
    nodes = [
        {
            "data": {
                "id": names[box.key], "key": box.key, "label": f"▾ {box.label}" if box.kind == "open" else box.label,
                "width": box.size.width, "height": box.size.height, "heat": box.heat or 0.0,
            },
            "classes": " ".join([*classes(box), *marks.get(box.key, ())]),
            "position": dict(zip("xy", box.center, strict=True)),
            "grabbable": False,
        }
        for box in picture.boxes
    ]  # fmt: skip
    edges = [
        {
            "data": {"source": names[source], "target": names[target], "bend": -150},
            "classes": "long" if ranks[target] - ranks[source] > FAR else "",
        }
        for source, target in picture.edges
    ]
    canvas = Canvas(
        cytoscape_layout={"name": "preset", "fit": True, "padding": 18, "animate": False},
        cytoscape_style=sheet,
        max_zoom=1.5, min_zoom=0.05, wheel_sensitivity=0.3, auto_unselectify=True,
        layout=ipywidgets.Layout(width="100%", height="598px"),
    )  # fmt: skip
    canvas.graph.add_graph_from_json({"nodes": nodes, "edges": edges}, directed=True)
    canvas.on("node", "click", clicked)
    answer_while_busy(canvas)
    return canvas
