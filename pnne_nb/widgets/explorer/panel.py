"""The explorer's panel for one layer: facts, findings, statistics, histograms, pictures."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar, final

import ipywidgets
import torch
from torch import Tensor, nn

from pnne_nb.diagnosis.finding import Finding
from pnne_nb.errors import expect, registers
from pnne_nb.inspector.capture.capture import Capture, LayerView
from pnne_nb.inspector.statistics.histogram import histograms
from pnne_nb.inspector.tools.dataflow import Flow, FlowLayer
from pnne_nb.process.random_state import preserved_random_state
from pnne_nb.widgets.explorer.view import cost_of
from pnne_nb.widgets.host.images import Array, picture, tiles_of
from pnne_nb.widgets.host.static_picture import Pictured
from pnne_nb.widgets.plots.inspector_plot import draw_layer

MAX_HISTOGRAMS: Final = 6

MAX_COSTLIEST: Final = 8
"""Layers that the overview lists."""

_COLUMNS: Final = ("mean", "std", "min", "max", "zeros")

_WORDS: Final = {"activations": "output", "gradients": "output gradient", "inputs": "input", "updates": "update"}

CSS: Final = f"<style>{Path(__file__).with_name('explorer.css').read_text(encoding='utf-8')}</style>"

Registered = TypeVar("Registered", bound=Callable[[nn.Module], object])

_fields: dict[str, Callable[[nn.Module], object]] = {}
"""Rows of the panel that were registered, by title."""


@final
@dataclass(frozen=True)
class Details:
    """Everything known about one layer.

    Attributes:
        layer: The layer in the flow.
        module: The layer itself, read for its weights.
        captures: Tensors of the last run, parameters included.
        attention: Weights `[n, heads, queries, keys]`, or None if the layer computes none.
        findings: Findings about this layer.
        example: Index of the example in the batch that the pictures show.
        note: What could not be shown, and why.
        total: Seconds of the whole model; 0 if they are not known.
    """

    layer: FlowLayer
    module: nn.Module
    captures: Sequence[Capture] = ()
    attention: Tensor | None = None
    findings: Sequence[Finding] = ()
    example: int = 0
    note: str = ""
    total: float = 0.0


def widgets_of(details: Details) -> list[ipywidgets.Widget]:
    """Return the panel of one layer, from top to bottom."""
    shown: list[ipywidgets.Widget] = [ipywidgets.HTML(facts_html(details))]
    pictures = "".join(pictures_html(details))
    if pictures:
        shown.append(ipywidgets.HTML(pictures))
    if details.captures:
        shown.append(ipywidgets.HTML(_statistics_html(details.captures)))
    some = list(details.captures)[:MAX_HISTOGRAMS]
    for capture, found in zip(some, histograms([capture.tensor for capture in some]), strict=True):
        figure = draw_layer(LayerView(capture, details.layer.kind, found))
        words = _words(capture)
        figure.title, figure.layout.height = "", "190px"
        figure.fig_margin = {**figure.fig_margin, "top": 8}
        shown += [ipywidgets.HTML(f"<strong>{html.escape(words[:1].upper() + words[1:])}</strong>"), figure]
    return shown


def kept_html(widgets: Iterable[ipywidgets.Widget]) -> str:
    """Return what widgets show as HTML that needs no kernel: texts, pictures, and what is chosen in controls."""
    kept = ""
    for widget in widgets:
        match widget:
            case ipywidgets.Widget() if widget.layout.display == "none":
                pass
            case ipywidgets.HTML():
                kept += f"<div>{re.sub('</?button[^>]*>', '', widget.value)}</div>"
            case ipywidgets.Dropdown() | ipywidgets.BoundedIntText():
                kept += f"<div>{widget.description}: {html.escape(getattr(widget, 'label', None) or str(widget.value))}</div>"
            case Pictured():
                kept += widget.to_html()
            case ipywidgets.Box():
                kept += kept_html(widget.children)
            case _:
                pass  # a button
    return kept


def text_of(kept: str) -> list[str]:
    """Return HTML of `kept_html` as lines of plain text."""
    parts = re.split(
        "</?(?:div|tr|table|p|pre|li|caption|details)[^>]*>|\n", re.sub("<summary>.*?</summary>", "", kept)
    )
    lines = (html.unescape(" ".join(re.sub("<[^>]*>", " ", part).split())) for part in parts)
    return [line for line in lines if line]


def facts_html(details: Details) -> str:
    """Return name, class, settings, shapes, parameters, time and findings as HTML."""
    layer = details.layer
    rows = [*_rows(layer, details.total), *_registered_rows(details.module)]
    table = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
    settings = f"({layer.detail})" if layer.detail else ""
    findings = "".join(
        f'<div class="pnne-finding"><strong>{html.escape(found.kind.replace("-", " "))}</strong>:'
        f" {html.escape(found.reason)}<br>{html.escape(found.hint)}</div>"
        for found in details.findings
    )
    note = f'<p class="pnne-quiet">{html.escape(details.note)}</p>' if details.note else ""
    return (
        f"<h3>{html.escape(layer.path or 'The model')}</h3>"
        f'<div class="pnne-quiet">{html.escape(layer.kind)}{html.escape(settings)}</div>'
        f'{findings}<table class="pnne-facts">{table}</table>{note}'
    )


def facts(flow: Flow, path: str) -> list[str]:
    """Return the facts of a layer as lines of plain text."""
    layer = flow.layers[path]
    head = f"{path}: {layer.kind}{f'({layer.detail})' if layer.detail else ''}"
    return [head, *(f"{name}: {value}" for name, value in _rows(layer, flow.layers[""].seconds or 0.0))]


def _rows(layer: FlowLayer, total: float) -> list[tuple[str, str]]:
    """Return the facts of a layer, with its name."""
    rows = []
    if layer.inputs:
        rows.append(("Input", ", ".join(map(_shape, layer.inputs))))
    if layer.outputs:
        rows.append(("Output", ", ".join(map(_shape, layer.outputs))))
    frozen = layer.parameters - layer.trainable
    rows.append(("Parameters", f"{layer.parameters:,}{f' ({frozen:,} frozen)' if frozen else ''}"))
    if layer.seconds is not None:
        share = f", {layer.seconds / total:.0%} of the forward pass" if total else ""
        calls = f", {layer.calls} calls" if layer.calls > 1 else ""
        rows.append(("Time", f"{1000 * layer.seconds:.3f} ms{share}{calls}"))
    return rows


def register_field(title: str) -> Callable[[Registered], Registered]:
    """Return a decorator that adds a row to the explorer's panel of each layer.

    What is decorated takes the layer and returns what the row says, or None where it says nothing::

        @pn.register_field("Rank")
        def rank(layer):
            if isinstance(layer, nn.Linear):
                return int(torch.linalg.matrix_rank(layer.weight))

    It is called without recording gradients; random numbers that it draws are put back. An error is what the row says.
    Registering a title again replaces it.

    Args:
        title: What the row is called.

    Raises:
        ArgumentError: `title` is no text, or what is decorated cannot be called.
    """
    expect(title, str, "title", "what the row is called", 'Write @pn.register_field("Rank").')
    return registers(lambda field: _fields.update({title: field}), "takes the layer")


def _registered_rows(layer: nn.Module) -> Iterable[tuple[str, str]]:
    """Yield the rows of the registered fields."""
    for title, field in _fields.items():
        try:
            with torch.no_grad(), preserved_random_state():
                value = field(layer)
        except Exception as error:  # noqa: BLE001  # whatever it raises, the other rows are shown
            value = f"failed: {type(error).__name__}: {error}"
        if value is not None:
            yield title, str(value)


def pictures_html(details: Details) -> Iterable[str]:
    """Yield filters of a convolution, feature maps and attention maps as HTML."""
    weight = getattr(details.module, "weight", None)
    if isinstance(details.module, (nn.Conv1d, nn.Conv2d, nn.Conv3d)) and isinstance(weight, Tensor):
        tiles = tiles_of(weight.detach().flatten(0, 1))
        yield picture(tiles, _counted("Filters", tiles, weight.shape[0] * weight.shape[1]), signed=True)
    for capture in details.captures:
        tensor = capture.tensor
        if capture.quantity == "activations" and tensor.dim() in (4, 5) and not capture.sampled:
            maps = tensor[min(details.example, len(tensor) - 1)]
            tiles = tiles_of(maps)
            yield picture(tiles, _counted("Feature maps", tiles, len(maps)), signed=False)
    if details.attention is not None:
        maps = details.attention[min(details.example, len(details.attention) - 1)]
        tiles = tiles_of(maps)
        yield picture(tiles, _counted("Attention by head (rows look at columns)", tiles, len(maps)), signed=False)


def overview_html(flow: Flow) -> str:
    """Return the panel's HTML while no layer is selected."""
    model = flow.layers[""]
    hint = "Click a layer to look inside." if flow.traced else (
        "Click a layer to look inside. Pass args=… (an example input) to see shapes, times and how data flows."
    )  # fmt: skip
    return f'{facts_html(Details(model, nn.Identity()))}<p class="pnne-quiet">{hint}</p>{_costliest_html(flow)}'


def _costliest_html(flow: Flow) -> str:
    """Return the layers with the most time of their own, or with the most parameters if nothing ran."""
    costs = {
        layer.path: _own_seconds(flow, layer) if flow.traced else float(layer.own) for layer in flow.layers.values()
    }
    total = sum(costs.values())
    if not total:
        return ""
    largest = sorted(flow.layers.values(), key=lambda layer: -costs[layer.path])[:MAX_COSTLIEST]
    rows = ""
    for layer, share in ((layer, costs[layer.path] / total) for layer in largest):
        if share >= 0.005:
            cost = f"{1000 * costs[layer.path]:.2f} ms" if flow.traced else f"{layer.own:,}"
            rows += (
                f"<tr><td>{html.escape(layer.path or '(the model itself)')}</td><td>{html.escape(layer.kind)}</td>"
                f'<td>{cost}</td><td>{share:.0%}</td><td style="width:90px;text-align:left">'
                f'<span class="pnne-share" style="width:{80 * share:.0f}px"></span></td></tr>'
            )
    words = "Where the time goes" if flow.traced else "Where the parameters are"
    return f'<strong>{words}</strong><table class="pnne-facts pnne-costliest"><tbody>{rows}</tbody></table>'


def _own_seconds(flow: Flow, layer: FlowLayer) -> float:
    """Return the seconds of a layer without its inner layers."""
    inside = sum(cost_of(flow, child, "time") for child in layer.children)
    return max(0.0, (layer.seconds or 0.0) - inside)


def _counted(words: str, tiles: Array, total: int) -> str:
    return words if len(tiles) == total else f"{words}, {len(tiles)} of {total:,}"


def _statistics_html(captures: Sequence[Capture]) -> str:
    # Columns of rare values appear only if there are any.
    odd = any(capture.statistics.nan or capture.statistics.inf for capture in captures)
    units = any(capture.units for capture in captures)
    names = ("", *_COLUMNS, *(["NaN, Inf"] if odd else []), *(["dead"] if units else []))
    body = ""
    for capture in captures:
        numbers = capture.statistics
        cells = [f"{getattr(numbers, column):.3g}" for column in _COLUMNS[:-1]]
        cells.append(f"{numbers.zeros:.0%}")
        if odd:
            cells.append(f"{numbers.nan:,}, {numbers.inf:,}")
        if units:
            cells.append(f"{capture.units.dead} of {capture.units.units}" if capture.units else "")
        body += f"<tr><td>{html.escape(_words(capture))}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    head = "".join(f"<th>{name}</th>" for name in names)
    return f'<table class="pnne-facts pnne-statistics"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _words(capture: Capture) -> str:
    if capture.quantity == "parameters":
        return capture.label
    if capture.quantity == "parameter_gradients":
        return f"{capture.label} gradient"
    return f"{_WORDS[capture.quantity]} {capture.label}".strip()


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"
