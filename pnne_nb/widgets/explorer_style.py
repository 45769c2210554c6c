"""The explorer's colours: explicit ones for light and for dark, because the graph is painted on a canvas."""

from __future__ import annotations

from typing import Any, Final, Literal

Theme = Literal["light", "dark"]

_FILLS: Final = {
    "conv": ("#d6e8f8", "#1f4465", "#2f86c9"),
    "linear": ("#d5efe6", "#164a3a", "#1a9871"),
    "norm": ("#efdff2", "#4b2a52", "#b565c4"),
    "activation": ("#fbe6cc", "#57370d", "#d07000"),
    "pool": ("#d3edf0", "#12464d", "#1b93a5"),
    "attention": ("#f8dbdf", "#5b222b", "#d1495b"),
    "recurrent": ("#f8dbdf", "#5b222b", "#d1495b"),
    "embedding": ("#eeeecb", "#45450f", "#8a8a10"),
    "quiet": ("#ececec", "#3a3a3a", "#8a8a8a"),
    "closed": ("#e6eaf0", "#333a45", "#6b7a90"),
    "more": ("#f4f4f4", "#2a2a2a", "#8a8a8a"),
    "end": ("#ffffff", "#1b1b1b", "#8a8a8a"),
    "join": ("#ffffff", "#1b1b1b", "#8a8a8a"),
}
"""By style: fill in the light theme, fill in the dark theme, border."""


def style(theme: Theme, chosen: str | None = None) -> list[dict[str, Any]]:
    """The style sheet of the graph.

    Args:
        theme: Which colours.
        chosen: Identity of the box that is marked, or None.
    """
    dark = theme == "dark"
    ink, line, mark = ("#e8eaed", "#8d939c", "#6cb6f5") if dark else ("#1f2328", "#8d939c", "#1167b1")
    sheet: list[dict[str, Any]] = [
        {
            "selector": "node",
            "css": {
                "shape": "round-rectangle", "width": "data(width)", "height": "data(height)", "label": "data(label)",
                "color": ink, "font-family": "system-ui, sans-serif", "font-size": "12px", "text-wrap": "wrap",
                "text-valign": "center", "text-halign": "center", "line-height": 1.35, "border-width": 1.2,
                "border-color": line, "background-opacity": 1,
            },
        },
        {
            "selector": "node.open",
            "css": {
                "background-color": ink, "background-opacity": 0.05, "border-color": line, "border-style": "solid",
                "border-width": 1, "text-valign": "top", "text-halign": "center", "text-margin-y": "20px",
                "font-weight": "bold", "padding": "0px",
            },
        },
        {
            "selector": "edge",
            "css": {
                "width": 1.4, "line-color": line, "target-arrow-color": line, "target-arrow-shape": "triangle",
                "arrow-scale": 0.8, "curve-style": "bezier",
            },
        },
        {
            "selector": "edge.long",
            "css": {
                "curve-style": "unbundled-bezier", "control-point-distances": "data(bend)",
                "control-point-weights": "0.5", "line-style": "solid",
            },
        },
    ]  # fmt: skip
    for kind, (light, night, border) in _FILLS.items():
        sheet.append(
            {
                "selector": f"node.{kind}",
                "css": {"background-color": night if dark else light, "border-color": border},
            }
        )
    cold, hot = ("#26211c", "#a85400") if dark else ("#fffaf3", "#f0973a")
    sheet.append(
        {
            "selector": "node.heat",
            "css": {"background-color": f"mapData(heat, 0, 1, {cold}, {hot})", "border-color": line},
        }
    )
    sheet.append({"selector": "node.closed", "css": {"font-weight": "bold"}})
    sheet.append({"selector": "node.join", "css": {"shape": "ellipse", "font-size": "15px"}})
    sheet.append({"selector": "node.uncalled", "css": {"opacity": 0.55, "border-style": "dashed"}})
    sheet.append({"selector": "node.alarm", "css": {"border-color": "#d1495b", "border-width": 3}})
    if chosen is not None:
        sheet.append({"selector": f"#{chosen}", "css": {"border-color": mark, "border-width": 3.5}})
    return sheet
