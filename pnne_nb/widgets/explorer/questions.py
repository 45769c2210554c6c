"""What can be asked about the selected layer: its units, why the answer is what it is, and how a number came about."""

from __future__ import annotations

import html
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, final

import ipywidgets
import numpy as np
from torch import Tensor

from pnne_nb.errors import ArgumentError, InspectionError, choose, shown
from pnne_nb.inspector.capture.hooks import tensors_in
from pnne_nb.inspector.questions.attribute import METHODS, all_methods, attribute
from pnne_nb.inspector.questions.changes import zero
from pnne_nb.inspector.questions.example import element_index
from pnne_nb.inspector.questions.explain_value import explain_value
from pnne_nb.inspector.questions.receptive_field import receptive_field
from pnne_nb.inspector.questions.sites import place_of
from pnne_nb.inspector.questions.units import Peak, UnitReport, layer_output, look_at_units, peaks
from pnne_nb.widgets.explorer.answers import Access, Answer, first_tensor, refused, show_in, tokens_html
from pnne_nb.widgets.explorer.what_if import part_of
from pnne_nb.widgets.host.displays import answer_while_busy, button, chooser, close_whole
from pnne_nb.widgets.host.images import inline_svg, picture, tiles_of

ROWS: Final = 8
"""Units that are shown at first; the button shows as many more."""

CONTEXT: Final = 8
"""Tokens that are shown of a text where a unit is largest, the last ones."""

SIDE: Final = 12
"""Most numbers of an output that are shown side by side, and one below the other."""


TABS: Final = ("Layer", "Units", "Why", "Number", "Projection", "Sequence")

_CHOICES: Final = {"Units": {"dim"}, "Why": {"method", "answer"}, "Number": {"number"}}
"""What can be chosen with a question."""


def check_question(question: str, chosen: dict[str, Any]) -> None:
    """Check a question and what is chosen with it, in place.

    Raises:
        ArgumentError: If there is no such question, or it has no such choice.
    """
    wrong = {*chosen} - _CHOICES.get(question, set())
    if question not in TABS or wrong:
        raise ArgumentError(
            f"ask takes one of {', '.join(TABS)}, with dim= for Units, method= and answer= for Why and number= for Number, not"
            f" {shown(question)}{f' with {min(wrong)}=' if wrong else ''}."
        )
    if "method" in chosen:
        choose(chosen["method"], all_methods(), "method")
    if "number" in chosen:
        chosen["number"] = element_index(chosen["number"])


@final
class Questions:
    """Makes the widgets for each question about a layer.

    Args:
        access: How they get at the model.
        path: The layer, or a function of a compiled graph.
        place: The example.
        answer: What the model says of it, or None where it fails.
    """

    def __init__(self, access: Access, path: str, place: int, answer: Answer | None) -> None:
        self.access, self.path = access, path
        self._asked, self._alone = access.asked(), access.alone
        self._settings, self._work = access.settings, access.work
        self._path, self._place, self._answer = path, place, answer
        self._inputs = self._asked.examples.cut([place]).inputs
        self._explained: ipywidgets.HTML | None = None
        self._axis: int | None = None
        self.chosen: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Questions({self._path!r}, example {self._place})"

    # Units

    def units(
        self, switch_off: Callable[[str, str], None], show: Callable[[int], None], again: Callable[[int], None]
    ) -> list[ipywidgets.Widget]:
        """Return the units of the layer, those first that count most for the likeliest answer.

        Args:
            switch_off: Called with the layer and a unit whose button was pressed; an empty unit is the whole layer.
            show: Called with an example whose button was pressed.
            again: Called with another dimension in which units are counted.
        """
        target = (
            None if self._answer is None or not self._answer.classes else self._target(self._answer.likely[0].place)
        )
        around, dim = self._asked.examples.around(max(0, self._place)), self._settings.pop("dim", None)
        self._axis = dim
        report = self._alone(
            lambda: look_at_units(self._asked.net, around.inputs, self._path, self._inputs, target, dim=dim)
        )
        self.chosen = {} if dim is None else {"dim": dim}
        named = "" if target is None or self._answer is None else f"“{self._answer.likely[0].name}”"
        remarks = [state.partition(" ")[0] for state in report.states if state]
        counted = (
            ", ".join(f"{remarks.count(word)} {word}" for word in dict.fromkeys(remarks)) or "none dead or saturated"
        )
        head = ipywidgets.HTML(
            f"<strong>{len(report):,} units</strong>, {html.escape(counted)}<div class='pnne-quiet'>"
            + (
                f"First what counts most for {html.escape(named)}."
                if report.share is not None
                else "First the largest output."
            )
            + f" Units are counted in dimension {report.axis} of the output.</div>"
        )
        axis = chooser([*range(1, report.dims)], "Dimension", lambda: again(axis.value), value=report.axis)
        axis.layout.display = "none" if report.dims < 3 else ""
        off = partial(switch_off, self._path, "")
        whole = button("Switch off the layer", f"Set the output of {self._path} to zero", off)
        rows, order = ipywidgets.VBox(), report.order().tolist()
        waiting: dict[int, ipywidgets.HTML] = {}

        def grow() -> None:
            at = len(rows.children)
            added = [self._unit(report, unit, switch_off, show) for unit in order[at : at + ROWS]]
            rows.children += tuple(added)
            more.layout.display = "none" if len(rows.children) >= len(order) else ""
            waiting.update((unit, row.children[0]) for unit, row in zip(order[at:], added, strict=False))
            self._work.start(self._without(waiting))

        more = button(f"{ROWS} more units", "Show more units", grow)
        grow()
        return [head, ipywidgets.HBox([whole, axis]), rows, ipywidgets.HBox([more])]

    def _unit(
        self, report: UnitReport, unit: int, switch_off: Callable[[str, str], None], show: Callable[[int], None]
    ) -> ipywidgets.Widget:
        said = [f"output {report.level[unit]:.3g}", f"{report.zeros[unit]:.0%} zeros"]
        if report.share is not None:
            said.insert(0, f"counts {report.share[unit]:+.3g}")
        state = f' <span class="pnne-state">{report.states[unit]}</span>' if report.states[unit] else ""
        text = ipywidgets.HTML(
            f"<strong>Unit {unit}</strong>{state} <span class='pnne-quiet'>{', '.join(said)}</span>{_bars(report, unit)}"
        )
        below = ipywidgets.VBox()
        buttons = [button("Switch off", f"Switch unit {unit} off", partial(switch_off, self._path, self._where(unit)))]
        for words, places in (("Strongest", report.strongest), ("Weakest", report.weakest)):
            make = partial(self._read, unit, places[unit].tolist(), show)
            more = f"Examples with the {words.lower()} output of unit {unit}"
            buttons.append(button(words, more, partial(self._fill, below, make)))
        why = partial(self._because, unit, self._method, report)
        because = partial(self._fill, below, lambda: [ipywidgets.HTML(why())])
        buttons.append(button("Why", f"The values of the input that count for unit {unit}", because))
        return ipywidgets.VBox([text, ipywidgets.HBox(buttons), below])

    def _where(self, unit: int) -> str:
        """Return how a unit is written in a row of changes."""
        return str(unit) if self._axis is None else f"channels {unit} dim {self._axis}"

    def _without(self, waiting: dict[int, ipywidgets.HTML]) -> Generator[object, None, None]:
        """Write at each unit that waits for it what the answer is without it."""
        if self._answer is None or not self._answer.classes:
            return
        for unit, row in list(waiting.items()):
            yield None
            changes = {self._path: [zero(**part_of(self._path, self._where(unit)))]}
            try:
                best = self._alone(partial(self._asked.one, self._place, changes)).likely[0]
            except Exception as error:  # noqa: BLE001  shown where it was provoked
                row.value += refused(error)
                return
            moved = " pnne-moved" if best.place != self._answer.likely[0].place else ""
            said = f"without it: {html.escape(best.name)} {best.share:.1%}"
            row.value += f'<div class="pnne-without{moved}">{said}</div>'
            del waiting[unit]

    def _fill(self, below: ipywidgets.VBox, make: Callable[[], list[ipywidgets.Widget]]) -> None:
        """Show something below a unit, or hide what is there."""
        before, below.children = below.children, ()
        for child in before:
            close_whole(child)
        if not before:
            try:
                below.children = tuple(self._alone(make))
            except Exception as error:  # noqa: BLE001  shown where it was provoked
                below.children = (ipywidgets.HTML(refused(error)),)

    def _weights(self, unit: int) -> list[ipywidgets.Widget]:
        weight = getattr(place_of(self._asked.net, self._path), "weight", None)
        if self._axis is not None or not isinstance(weight, Tensor) or weight.dim() < 2 or unit >= len(weight):
            return []
        own = weight[unit].detach()
        drawn = picture(
            tiles_of(own if own.dim() > 1 else own[None]), f"Weights of unit {unit}", signed=True, width=120
        )
        return [ipywidgets.HTML(drawn)]

    def _read(self, unit: int, places: list[int], show: Callable[[int], None]) -> list[ipywidgets.Widget]:
        """Return examples with what a unit reads of them where it is largest, below its weights."""
        inputs = self._asked.examples.cut(places).inputs
        first = first_tensor(inputs)
        try:
            found: list[Peak | None] = list(peaks(self._asked.net, inputs, self._path, unit, dim=self._axis))
        except InspectionError:  # nothing of the input counts for it, or nothing has a gradient
            found = [None] * len(places)
        cells = []
        for at, (place, peak) in enumerate(zip(places, found, strict=True)):
            opens = button(str(place), f"Show example {place}", partial(show, place))
            cells.append(ipywidgets.VBox([ipywidgets.HTML(self._patch(first, at, place, peak)), opens]))
        return [*self._weights(unit), ipywidgets.HBox(cells, layout=ipywidgets.Layout(flex_flow="row wrap"))]

    def _patch(self, given: Tensor | None, at: int, place: int, peak: Peak | None) -> str:
        """Return the part of an example that counts, as HTML: a piece of the picture, or the last of the tokens."""
        if given is None or given.dim() < 2 or peak is None or not peak.box:
            return ""
        each = given[at].detach().cpu()
        inside = each[tuple(slice(low, high + 1) for low, high in peak.box)]
        if each.dim() == 1 and not each.is_floating_point():
            end = peak.place[0] + 1 if peak.place and len(peak.place) == 1 else peak.box[0][1] + 1
            return tokens_html(self._asked.read(each[max(0, end - CONTEXT) : end].tolist()))
        if each.dim() not in (2, 3) or not each.is_floating_point():
            return ""
        maps = inside.mean(0) if each.dim() == 3 else inside
        return picture(tiles_of(maps[None]), f"In {place}", signed=False, width=56)

    # Why

    @property
    def _method(self) -> str:
        """How answers are attributed to the input: at first by the method that takes one backward pass."""
        return str(self._settings.get("method", METHODS[0]))

    def why(self) -> list[ipywidgets.Widget]:
        """Return which values of the input count for an answer, by a method that can be chosen."""
        if self._answer is None or not self._answer.classes:
            return [
                ipywidgets.HTML("The model gives no classes for this example: pn.attribute asks about other numbers.")
            ]
        answers = [(f"{one.name} ({one.share:.1%})", one.place) for one in self._answer.likely]
        shown = ipywidgets.HTML()

        def ask() -> None:
            self._settings["method"] = method.value
            self.chosen = {"method": method.value, "answer": answer.value}
            show_in(shown, lambda: str(self._alone(partial(self._because, answer.value, method.value))))

        first = self._settings.pop("answer", answers[0][1])
        if first not in {place for _, place in answers}:
            answers.append((self._asked.name(first), first))
        answer = chooser(answers, "Why", ask, value=first)
        method = chooser(all_methods(), "by", ask, value=self._method)
        ask()
        return [ipywidgets.HBox([answer, method], layout=ipywidgets.Layout(flex_flow="row wrap")), shown]

    def _because(self, place: int, method: str, of: UnitReport | None = None) -> str:
        """Return what counts for an answer, or for the mean of the unit `place` of a layer, as HTML."""
        target = self._target(place) if of is None else partial(_mean, of.axis, place)
        found = attribute(self._asked.net, self._inputs, target, method, of=None if of is None else of.layer)
        drawn = [
            self._counted(name, value, given)
            for name, value, (_, given) in zip(found.names, found.values, tensors_in(self._inputs), strict=False)
            if value is not None and value.numel()
        ]
        gap = (
            "" if found.gap is None else
            f"<div>Completeness gap {found.gap:.2g}: how far the values are from adding up to the answer.</div>"
        )  # fmt: skip
        where = ", ".join(dict.fromkeys(found.where.values()))
        return (
            f"{''.join(drawn)}{gap}<div class='pnne-quiet'>Red counts for the answer, blue against it; taken at the"
            f" {html.escape(where)}. The score is {float(found.answers[0]):.4g}. {html.escape(' '.join(found.notes))}</div>"
        )

    def _counted(self, name: str, value: Tensor, given: Tensor) -> str:
        """Return what each value of an input counts, as HTML: over its tokens, in a table, or as a picture."""
        each = (value[0] if value.dim() > 1 and len(value) == 1 else value).detach().float().cpu()
        if each.dim() == 1 and len(each) <= 200:
            flat = (given[0] if given.dim() > 1 and len(given) == 1 else given).detach().cpu()
            columns = self._asked.examples.columns
            if not flat.is_floating_point():
                words = self._asked.read(flat.tolist())
            else:
                words = list(columns) if len(columns) == len(each) else [f"[{at}]" for at in range(len(each))]
            largest = float(each.abs().max()) or 1.0
            spans = "".join(
                f'<span style="background:rgba({"220,60,60" if number > 0 else "60,110,220"},{0.6 * abs(number) / largest:.2f})"'
                f' title="{number:.4g}">{html.escape(word)}</span>'
                for word, number in zip(words, each.tolist(), strict=True)
            )
            return f'<div class="pnne-tokens">{spans}</div>'
        while each.dim() > 2:
            each = each.sum(0)
        return picture(tiles_of(each.reshape(1, -1) if each.dim() < 2 else each[None]), name, signed=True, width=220)

    # Explain this number

    def numbers(self) -> list[ipywidgets.Widget]:
        """Return the output of the layer, of which each number can be pressed."""
        output = self._alone(lambda: layer_output(self._asked.net, self._inputs, self._path))
        each = output[0] if output.dim() > 1 else output
        channel = ipywidgets.BoundedIntText(
            max=max(0, len(each) - 1) if each.dim() > 2 else 0, description="Channel",
            layout=ipywidgets.Layout(width="150px", display="" if each.dim() > 2 else "none"),
        )  # fmt: skip
        table = ipywidgets.HTML()

        def draw(_change: object = None) -> None:
            table.value = self._table(output, channel.value)

        channel.observe(draw, "value")
        answer_while_busy(channel)
        draw()
        self._explained = ipywidgets.HTML()
        return [ipywidgets.HTML("Click a number, and its formula is shown."), channel, table, self._explained]

    def explain(self, index: tuple[int, ...]) -> None:
        """Show how a number of the layer's output came about."""
        call = self._asked.net, self._inputs, self._path, index

        def explained() -> str:
            found = self._alone(lambda: explain_value(*call))
            try:
                read = repr(self._alone(lambda: receptive_field(*call, draws=0))).partition("] ")[2]
            except InspectionError as error:
                read = str(error)
            self.chosen = {"number": index}
            said = html.escape(f"{found!r}\n  {read}")
            return f'<pre class="pnne-formula" role="status">{said}</pre>'

        if self._explained is not None:
            show_in(self._explained, explained)

    def _table(self, output: Tensor, channel: int) -> str:
        """Return a part of the output as a table of buttons: a channel of an image, the last tokens, or a row."""
        each = output[0] if output.dim() > 1 else output
        head: tuple[int, ...] = (0,) if output.dim() > 1 else ()
        while each.dim() > 2:
            at = channel if each.dim() == output.dim() - 1 else 0
            each, head = each[at], (*head, at)
        rows = each if each.dim() == 2 else each[None]
        if each.dim() == 2:
            places = [[(*head, i, j) for j in range(min(SIDE, rows.shape[1]))] for i in range(min(SIDE, len(rows)))]
        else:
            places = [
                [(*head, j) for j in range(start, min(start + SIDE, rows.shape[1]))]
                for start in range(0, min(rows.shape[1], SIDE * SIDE), SIDE)
            ]
        cells = "".join(
            "<tr>" + "".join(f"<td>{_number(place, float(output[place]))}</td>" for place in row) + "</tr>"
            for row in places
        )
        shown = sum(map(len, places))
        cut = f"<div class='pnne-quiet'>{shown:,} of {output.numel():,} numbers</div>" if shown < output.numel() else ""
        return f'<table class="pnne-numbers">{cells}</table>{cut}'

    def _target(self, place: int) -> tuple[int, ...]:
        assert self._answer is not None
        return (*self._answer.target, place)


def _mean(axis: int, unit: int, output: Tensor) -> Tensor:
    return output.movedim(axis, 1)[:, unit].reshape(len(output), -1).mean(1)


def _bars(report: UnitReport, unit: int) -> str:
    """Return the histogram of a unit as a small picture."""
    counts, (low, high) = report.counts[unit], report.ends
    heights = np.sqrt(counts / max(1, counts.max())) * 18
    bars = "".join(
        f'<rect x="{5 * at}" y="{18 - height:.1f}" width="4" height="{height:.1f}"/>'
        for at, height in enumerate(heights) if height
    )  # fmt: skip
    words = f"Histogram of unit {unit}, from {low:.3g} to {high:.3g}"
    return inline_svg(f'<g fill="#2a78c2">{bars}</g>', 5 * len(counts), 18, words)


def _number(place: tuple[int, ...], value: float) -> str:
    written = np.format_float_positional(value, precision=2, trim="-") if abs(value) < 1e4 else f"{value:.1e}"
    asked = ",".join(map(str, place))
    return f'<button data-pnne-ask="value:{asked}" aria-label="Explain {value:.4g} at {asked}">{written}</button>'
