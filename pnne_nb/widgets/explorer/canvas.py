"""Draws the explorer's graph with ipycytoscape: one widget per box and edge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, final

import ipycytoscape
import ipywidgets

from pnne_nb.widgets.explorer.style import class_of
from pnne_nb.widgets.explorer.view import Box, ExplorerPicture
from pnne_nb.widgets.host.displays import answer_while_busy

FAR: Final = 130
"""Distance of two boxes in pixels from which an edge runs around the boxes between them."""


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
