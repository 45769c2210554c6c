"""What a canvas shows of widgets of other libraries: boxes, controls as HTML, plots as points from 0 to 1, a graph as SVG."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import bqplot
import ipywidgets
import numpy as np
from numpy.typing import NDArray

from pnne_nb.widgets.host.displays import widget_tree

View = dict[str, Any]
"""What the page gets to know about one widget; js/src/canvas/views.ts draws it."""
Buffers = list[bytes]
Floats = NDArray[np.float64]

_INPUTS: Final = {
    "TextView": 'type="text" style="flex:1;min-width:0"', "IntTextView": 'type="number"', "FloatTextView": 'type="number"',
    "IntSliderView": 'type="range"', "SelectionSliderView": 'type="range"', "CheckboxView": 'type="checkbox"',
    "FileUploadView": 'type="file"',
}  # fmt: skip

_ICONS: Final = {"chevron-left": "‹", "chevron-right": "›", "times": "×"}


def parts_of(widget: ipywidgets.Widget) -> list[ipywidgets.Widget]:
    """Return the widgets whose changes change the view of `widget`; the children of a box have views of their own."""
    return [widget, widget.layout] if isinstance(widget, ipywidgets.Box) else widget_tree(widget)


def view_of(widget: Any, buffers: Buffers) -> View:
    """Return what the page shows of a widget; arrays are appended to `buffers`."""
    layout = {name.replace("_", "-"): value for name, value in widget.layout.get_state().items() if name[0] != "_"}
    about: View = {"classes": list(widget._dom_classes), "style": layout}
    match widget._view_name:
        case "AnyView":
            state = {name: value for name, value in widget.get_state().items() if name != "layout"}
            return about | {"kind": "own", "state": state}
        case "BoxView" | "HBoxView" | "VBoxView" as name:
            about["classes"] += ["widget-box", f"widget-{name[:-4].lower()}"]
            layout["flex-direction"] = "column" if name == "VBoxView" else None
            return about | {"kind": "box", "children": [child.model_id for child in widget.children]}
        case "Figure":
            return about | {"kind": "html"} | _figure(widget, buffers)
        case "CytoscapeView":
            return about | {"kind": "graph", "html": widget.drawn()}
        case _:
            return about | {"kind": "html"} | _control(widget)


def _control(widget: Any) -> View:
    """Return a control as HTML without its value, which is written into it unless somebody is typing."""
    name, labels = widget._view_name, [html.escape(label) for label in getattr(widget, "_options_labels", ())]
    value = widget.index if labels else getattr(widget, "value", None)
    off = " disabled" if getattr(widget, "disabled", False) else ""
    tip = html.escape(getattr(widget, "tooltip", None) or "")
    words = html.escape(getattr(widget, "description", "")) or _ICONS.get(getattr(widget, "icon", ""), "")
    if name == "HTMLView":
        return {"html": f'<div class="widget-html-content">{value}</div>'}
    if name == "ButtonView":
        named = words if len(words) > 1 else tip
        return {"html": f'<button type="button" data-press title="{tip}" aria-label="{named}"{off}>{words}</button>'}
    if name == "ImageView":
        data = base64.b64encode(widget.value).decode()
        return {"html": f'<img alt="" src="data:image/{widget.format};base64,{data}">'}
    if name == "ToggleButtonsView":
        each = (f'<button type="button" data-index="{at}"{off}>{label}</button>' for at, label in enumerate(labels))
        control = f'<span role="group" aria-label="{words}">{"".join(each)}</span>'
    elif name in ("DropdownView", "SelectView"):
        rows = f' size="{widget.rows}"' if name == "SelectView" else ""
        options = "".join(f"<option>{label}</option>" for label in labels)
        control = f'<select data-set="index" title="{tip}"{rows}{off}>{options}</select>'
    elif name in _INPUTS:
        low, high = (0, len(labels) - 1) if labels else (getattr(widget, "min", None), getattr(widget, "max", None))
        bounds = "".join(f' {end}="{at}"' for end, at in (("min", low), ("max", high)) if at is not None)
        step = getattr(widget, "step", None) or (1 if labels else "any")
        at_once = "input" if getattr(widget, "continuous_update", False) else "change"
        hint = html.escape(getattr(widget, "placeholder", ""))
        control = (
            f'<input {_INPUTS[name]} data-set="{"index" if labels else "value"}" data-on="{at_once}" title="{tip}" '
            f'placeholder="{hint}" aria-label="{words or hint or tip}" step="{step}"{bounds}{off}>'
        )
        control += "<output></output>" if "Slider" in name else ""
        value = None if name == "FileUploadView" else value
    else:
        return {"html": f"<p>{html.escape(type(widget).__name__)} cannot be shown here.</p>"}
    readout = widget.label if labels and "Slider" in name else str(value)
    label = f'<span class="widget-label" style="margin:0 6px 0 2px">{words}</span>' if words else ""
    return {"html": f"<label>{label}{control}</label>", "value": value, "readout": readout}


def _figure(figure: bqplot.Figure, buffers: Buffers) -> View:
    """Return a plot as HTML whose paths are in a square of side 1; their points come apart, as they change most."""
    marks, words, points = list[str](), list[str](), list[int]()
    names = [figure.title]
    if figure.title:
        words.append(_text(figure.title, 0.5, 1, 0, -10))
    for axis in figure.axes:
        if axis.visible and axis.scale is not None:
            places, ticks = _ticks(axis)
            left = axis.side == "left"
            for place, tick in zip(places.tolist(), ticks, strict=True):
                words.append(_text(tick, 0, place, -6, 0, "-100%") if left else _text(tick, place, 0, 0, 12))
            aside = 14 - figure.fig_margin["left"]
            label = axis.label or ""
            words.append(_text(label, 0, 0.5, aside, 0, turn="rotate(-90deg)") if left else _text(label, 0.5, 0, 0, 30))
            names.append(axis.label)
            if axis.grid_lines == "solid":
                ends, at = np.tile([0, 1, np.nan], len(places)), np.repeat(places, 3)
                line = (ends, at) if left else (at, ends)
                marks.append(_path(f'stroke="{axis.grid_color}"', line, points, buffers))
    for mark in figure.marks:
        if mark.visible:
            marks += _mark(mark, points, buffers)
    name = html.escape(", ".join(filter(None, names)))
    margin = " ".join(f"{figure.fig_margin[side]}px" for side in ("top", "right", "bottom", "left"))
    drawn = f'<svg viewBox="0 0 1 1" preserveAspectRatio="none">{"".join(marks)}</svg>{"".join(words)}'
    return {
        "html": f'<div class="pnne-plot" role="img" aria-label="{name}" style="inset:{margin}">{drawn}</div>',
        "points": points,
    }


def _text(words: str, x: float, y: float, right: float, down: float, align: str = "-50%", turn: str = "") -> str:
    """Return a text at shares of the axes, moved by pixels to the right and downwards."""
    place = f"left:{100 * x:.2f}%;top:{100 * (1 - y):.2f}%;transform:translate({right}px,{down}px) translate({align},-50%) {turn}"
    return f'<span style="{place}">{html.escape(words)}</span>'


def _ticks(axis: bqplot.Axis) -> tuple[Floats, list[str]]:
    """Return where the ticks of an axis are, and their words."""
    if isinstance(axis.scale, bqplot.OrdinalScale):
        named = axis.tick_labels or {}
        return _shares(axis.scale, axis.scale.domain), [named.get(name, str(name)) for name in axis.scale.domain]
    ticks = np.asarray([] if axis.tick_values is None else axis.tick_values, dtype=float)
    shares = _shares(axis.scale, ticks)
    inside = (shares > -0.001) & (shares < 1.001)
    return shares[inside], [_short(tick) for tick in ticks[inside].tolist()]


def _short(tick: float) -> str:
    unit, size = next(((unit, size) for unit, size in (("M", 1e6), ("k", 1e3)) if abs(tick) >= size), ("", 1.0))
    return f"{tick / size:.4g}{unit}"


def _shares(scale: bqplot.Scale, values: Any) -> Floats:
    """Return where values stand between the ends of a scale, from 0 to 1; NaN for what it cannot show."""
    if isinstance(scale, bqplot.OrdinalScale):
        place = {name: (at + 0.5) / len(scale.domain) for at, name in enumerate(scale.domain)}
        shares = np.array([place.get(value, np.nan) for value in values], dtype=float)
    else:
        numbers = np.asarray(values, dtype=float)
        turned: Callable[[Any], Any] = np.log10 if isinstance(scale, bqplot.LogScale) else np.asarray
        with np.errstate(all="ignore"):
            numbers = turned(numbers)
            numbers = np.where(np.isfinite(numbers), numbers, np.nan)
            low = turned(scale.min) if scale.min is not None else np.min(numbers, initial=np.inf)
            high = turned(scale.max) if scale.max is not None else np.max(numbers, initial=-np.inf)
            shares = (numbers - low) / (high - low)
    return 1 - shares if scale.reverse else shares


def _mark(mark: bqplot.Mark, points: list[int], buffers: Buffers) -> list[str]:
    scales = mark.scales
    x, y = _shares(scales["x"], mark.x), _shares(scales["y"], mark.y)
    if isinstance(mark, bqplot.Image):
        source = f"data:image/{mark.image.format};base64,{base64.b64encode(mark.image.value).decode()}"
        place = f'x="{x[0]:.4f}" y="{1 - y[-1]:.4f}" width="{x[-1] - x[0]:.4f}" height="{y[-1] - y[0]:.4f}"'
        return [f'<image href="{source}" {place} preserveAspectRatio="none"/>']
    colours, opacities = list(mark.colors or ["gray"]), list(mark.opacities or [1.0])
    if isinstance(mark, bqplot.Bars):
        ground = y * 0 + _shares(scales["y"], np.zeros(1))
        half = (1 - mark.padding) * abs(x[1] - x[0]) / 2 if len(x) > 1 else 0.5
        corners = np.add.outer(x, np.array([-half, -half, half, half, np.nan])).ravel()
        heights = np.stack([ground, y, y, ground, ground], axis=1).ravel()
        ends = (heights, corners) if mark.orientation == "horizontal" else (corners, heights)
        return [_path(f'fill="{colours[0]}" opacity="{opacities[0]}"', ends, points, buffers)]
    if isinstance(mark, bqplot.Scatter):
        chosen = set(np.asarray(mark.selected).tolist() if mark.selected is not None else ())
        size = _width(mark.default_size)
        dots = []
        for at, (across, up) in enumerate(zip(x.tolist(), y.tolist(), strict=False)):
            place = (
                f'd="M{across:.4f} {1 - up:.4f}h0" stroke-linecap="round" data-dot="{at}" data-model="{mark.model_id}"'
            )
            edge = "#e8710a" if at in chosen else mark.stroke
            dots += [f'<path {place} stroke="{edge}" stroke-width="{size + 3}"/>'] if edge else []
            dots.append(f'<path {place} stroke="{colours[at % len(colours)]}" stroke-width="{size}"/>')
        return dots
    drawn: list[str] = []
    for at, row in enumerate(np.atleast_2d(y) if isinstance(mark, bqplot.Lines) and y.size else ()):
        across, up = x[at] if x.ndim == 2 else x, row
        if mark.interpolation == "step-after":
            across, up = np.repeat(across, 2)[1:], np.repeat(up, 2)[:-1]
        colour = colours[at % len(colours)]
        if mark.fill == "bottom":
            area = np.concatenate([across[:1], across, across[-1:]]), np.concatenate([[0.0], up, [0.0]])
            drawn.append(_path(f'fill="{colour}" opacity="0.6"', area, points, buffers))
        dashes = ' stroke-dasharray="6 4"' if mark.line_style == "dashed" else ""
        look = f'stroke="{colour}" opacity="{opacities[at % len(opacities)]}"'
        drawn.append(_path(f'{look} stroke-width="{mark.stroke_width}"{dashes}', (across, up), points, buffers))
        if mark.marker is not None:
            apart = np.stack([across, across * np.nan], axis=1).ravel(), np.repeat(up, 2)
            dot = f'{look} stroke-width="{_width(mark.marker_size)}" stroke-linecap="round"'
            drawn.append(_path(dot, apart, points, buffers))
    return drawn


def _width(area: float) -> float:
    """Return the width in pixels of a dot of so many square pixels."""
    return round(2 * math.sqrt(area / math.pi), 1)


def _path(look: str, line: tuple[Floats, Floats], points: list[int], buffers: Buffers) -> str:
    """Return a path that the page draws through the points (x, y), as many as have both; NaN is a gap."""
    x, y = line
    many = min(len(x), len(y))  # one of them may be a drawing older
    points.append(len(buffers))
    buffers.append(np.stack([x[:many], y[:many]], axis=1).astype(np.float32).tobytes())
    return f"<path data-path {look}/>"


def children_of(widget: ipywidgets.Widget) -> Sequence[ipywidgets.Widget]:
    """Return the widgets below `widget` that have views of their own."""
    return widget.children if isinstance(widget, ipywidgets.Box) else ()
