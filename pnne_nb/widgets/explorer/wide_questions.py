"""What can be asked about a layer for many examples at once, and about a whole sequence: its projection, heads and words."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import bqplot
import ipywidgets
import numpy as np
from torch import Tensor

from pnne_nb.inference.generate import generate
from pnne_nb.inspector.representations.logit_lens import logit_lens
from pnne_nb.inspector.representations.project import project
from pnne_nb.inspector.tools.attention import attention_maps
from pnne_nb.widgets.explorer.answers import Access, first_tensor, refused, show_in
from pnne_nb.widgets.explorer.questions import Questions
from pnne_nb.widgets.explorer.strip import Strip
from pnne_nb.widgets.host.displays import answer_while_busy, button, chooser
from pnne_nb.widgets.host.images import picture, tiles_of
from pnne_nb.widgets.host.static_picture import Pictured, Still
from pnne_nb.widgets.plots.figures import Figure, NumberAxis
from pnne_nb.widgets.plots.svg_chart import PALETTE, Chart, Panel, scattered

COLOURS: Final = (*PALETTE, "#6f5fd8", "#9a6240")
"""Of classes; ten have one each."""

WORDS: Final = 24
"""Most tokens on the axes of a large head; of a longer text, the last ones."""


@final
class Points(Figure, Pictured):
    """A figure of points that can be drawn without a browser."""

    def still(self) -> Still:
        """Return the points in their colours."""
        [dots], (across, up) = self.marks, self.axes
        colours = np.array(dots.colors)
        lines = [scattered("", dots.x[colours == one], dots.y[colours == one], one) for one in np.unique(colours)]
        panel = Panel(up.label, across.label, lines, counts=False)
        return Chart("Projection", [panel], [f"{len(dots.x)} examples."]).still()


def answered(tab: str, asked: Questions, strip: Strip, count_in: Callable[[int], None]) -> list[ipywidgets.Widget]:
    """Return the answer to a question about a layer; errors are shown where they were provoked.

    Args:
        tab: The question.
        asked: The layer, with its example.
        strip: Takes examples and changes that are chosen in the answer.
        count_in: Counts units in another dimension.
    """
    try:
        match tab:
            case "Units":
                return asked.units(strip.what_if.add, strip.choose, count_in)
            case "Why":
                return asked.why()
            case "Projection":
                return projection(asked.access, asked.path, strip.example, strip.choose)
            case "Sequence":
                return sequence(asked.access, strip.example)
            case _:
                return asked.numbers()
    except Exception as error:  # noqa: BLE001  the model's own, too
        return [ipywidgets.HTML(refused(error))]


def projection(access: Access, path: str, place: int, show: Callable[[int], None]) -> list[ipywidgets.Widget]:
    """Return the outputs of a layer as points of a plane, of which each opens its example.

    Args:
        access: How to get at the model.
        path: The layer.
        place: The example, which is marked.
        show: Called with an example whose point was pressed.
    """
    asked = access.asked()
    cut = asked.examples.around(max(0, place))
    found = access.alone(lambda: project(asked.net, cut.inputs, path))
    places = [*range(len(found.points))]
    places[-1] = max(places[-1], place)
    chosen, true, *_ = access.alone(lambda: asked.batch(places, None))
    x, y = (NumberAxis(f"component {n + 1} ({share:.0%} of the variance)", vertical=n == 1)
            for n, share in enumerate(found.explained))  # fmt: skip
    x.fit(found.points[:, 0])
    y.fit(found.points[:, 1])
    at = places.index(place) if place in places else -1
    dots = bqplot.Scatter(
        x=found.points[:, 0], y=found.points[:, 1], scales={"x": x.scale, "y": y.scale}, default_size=36,
        selected=[at] if at >= 0 else None, selected_style={"stroke": "currentColor", "stroke-width": "3"},
    )  # fmt: skip
    dots.on_element_click(lambda _mark, click: show(places[click["data"]["index"]]))
    kinds = {"true class": true, "predicted class": chosen, "right or wrong": np.where(true < 0, -1, true != chosen)}
    known = {words: classes for words, classes in kinds.items() if (classes >= 0).any()}
    key = ipywidgets.HTML()

    def paint() -> None:
        classes = known[colour.value] if known else np.zeros(len(places), np.int64)
        dots.colors = [COLOURS[int(one) % len(COLOURS)] for one in classes]
        names = ("right", "wrong") if colour.value == "right or wrong" else None
        key.value = "".join(
            f'<span style="color:{COLOURS[int(one) % len(COLOURS)]}" aria-hidden="true">●</span>'
            f" {html.escape(names[int(one)] if names else asked.name(int(one)))} "
            for one in np.unique(classes)
            if known
        )

    colour = chooser(list(known), "Colour by", paint)
    answer_while_busy(dots)
    paint()
    words = ipywidgets.HTML(
        f'<div class="pnne-quiet">{len(places):,} examples by the two directions in which the outputs of this layer differ'
        " most. A click on a point opens its example.</div>"
    )
    return [*([colour] if known else []), key, Points([dots], [x.axis, y.axis], height=340), words]


def sequence(access: Access, place: int) -> list[ipywidgets.Widget]:
    """Return all heads of all layers, one of them large, what each block would say, and a text that goes on."""
    asked = access.asked()
    inputs = asked.examples.cut([place]).inputs
    first = first_tensor(inputs)
    tokens: list[int] = []
    if first is not None and not first.is_floating_point() and first.dim() in (1, 2):
        tokens = first.reshape(-1).tolist()
    texts = asked.read(tokens)
    maps = access.alone(lambda: attention_maps(asked.net, inputs))
    shown: list[ipywidgets.Widget] = []
    if maps:
        shown += _heads({layer: map[0] for layer, map in maps.items()}, texts)
    try:
        lens = access.alone(lambda: logit_lens(asked.net, inputs, name=asked.name))
        words = "<strong>What it would say if it stopped after each block</strong>"
        heads = "".join(f"<td>{html.escape(text)}</td>" for text in texts) if len(texts) == lens.best.shape[1] else ""
        table = lens._repr_html_().replace("<tbody>", f"<tbody><tr><th>reads</th>{heads}</tr>" if heads else "<tbody>")
        shown.append(ipywidgets.HTML(f"{words}{table}"))
    except Exception as error:  # noqa: BLE001  shown where it was provoked
        shown.append(ipywidgets.HTML(f'<div class="pnne-quiet">{html.escape(str(error))}</div>'))
    return [*shown, *(_goes_on(access, tokens) if tokens else [])]


def _heads(maps: dict[str, Tensor], texts: Sequence[str]) -> list[ipywidgets.Widget]:
    small = "".join(
        picture(tiles_of(map), f"{layer}: heads 0 to {len(map) - 1}", signed=False, width=320)
        for layer, map in maps.items()
    )
    options = [(f"{layer}, head {head}", (layer, head)) for layer, map in maps.items() for head in range(len(map))]
    large = ipywidgets.HTML()

    def draw() -> None:
        layer, head = which.value
        large.value = _large(maps[layer][head], texts, f"{layer}, head {head}")

    which = chooser(options, "Large", draw)
    draw()
    return [ipywidgets.HTML(f"<strong>Heads</strong> (rows look at columns){small}"), which, large]


def _large(map: Tensor, texts: Sequence[str], words: str) -> str:
    """Return a head with its tokens on both axes, as a table."""
    rows, columns = ([*texts] if len(texts) == size else [str(place) for place in range(size)] for size in map.shape)
    kept = map[-WORDS:, -WORDS:].cpu().tolist()
    head = "".join(f"<th scope='col'>{html.escape(text)}</th>" for text in columns[-WORDS:])
    body = "".join(
        f"<tr><th scope='row'>{html.escape(text)}</th>"
        + "".join(f'<td style="background:rgba(208,112,0,{share:.2f})" title="{share:.1%}"></td>' for share in row)
        + "</tr>"
        for text, row in zip(rows[-WORDS:], kept, strict=True)
    )
    return (
        f'<div class="pnne-wide" tabindex="0" role="region" aria-label="{html.escape(words)}">'
        f'<table class="pnne-head"><tr><td></td>{head}</tr>{body}</table></div>'
    )


def _goes_on(access: Access, tokens: Sequence[int]) -> list[ipywidgets.Widget]:
    """Return controls with which a language model goes on from the tokens, step by step."""
    asked = access.asked()
    slim: Any = {"layout": ipywidgets.Layout(width="150px"), "style": {"description_width": "auto"}}
    steps = ipywidgets.BoundedIntText(value=8, min=1, max=200, description="Tokens", **slim)
    warmth = ipywidgets.BoundedFloatText(value=1.0, min=0.0, max=10.0, step=0.1, description="Temperature", **slim)
    most = ipywidgets.BoundedIntText(value=0, min=0, max=1000, description="Top k (0: all)", **slim)
    said = ipywidgets.HTML()
    reads = (
        asked.tokenizer
        if hasattr(asked.tokenizer, "encode") or isinstance(asked.tokenizer, str | list | tuple)
        else None
    )

    def write() -> str:
        found = access.alone(lambda: generate(
            asked.net, list(tokens), steps.value, tokenizer=reads, temperature=warmth.value, top_k=most.value or None,
        ))  # fmt: skip
        rows = "".join(
            f"<tr><th>{html.escape(step.drawn.text)}</th><td>"
            + ", ".join(f"{html.escape(one.text)} {one.probability:.0%}" for one in step.likely)
            + "</td></tr>"
            for step in found.steps
        )
        return f'{found._repr_html_()}<table class="pnne-facts"><caption>Step by step</caption>{rows}</table>'

    go = button("Go on", "Let the model write, token by token", lambda: show_in(said, write))
    for control in (steps, warmth, most):
        answer_while_busy(control)
    row = ipywidgets.HBox([steps, warmth, most, go], layout=ipywidgets.Layout(flex_flow="row wrap"))
    return [ipywidgets.HTML("<strong>Go on from here</strong>"), row, said]
