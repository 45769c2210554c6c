"""The rows of changes under the example: each can be switched off, all are measured over the data, and kept in a graph."""

from __future__ import annotations

import html
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, final

import ipywidgets
import numpy as np
from torch import nn

from pnne_nb.errors import ArgumentError, InspectionError, choose, expect, shown
from pnne_nb.inspector.questions.changes import Change, clamp, mean, patch, scale, zero
from pnne_nb.inspector.questions.example import whole_numbers
from pnne_nb.inspector.questions.intervene import keep
from pnne_nb.inspector.questions.sites import place_of
from pnne_nb.widgets.explorer.answers import Access, Answers, Asked, joined, refused, show_in
from pnne_nb.widgets.host.displays import answer_while_busy, button, chooser, close_whole
from pnne_nb.widgets.host.examples import require_place
from pnne_nb.widgets.host.piecework import Piecework

_NUMBERS: Final[dict[str, tuple[tuple[str, float], ...]]] = {
    "zero": (), "scale": (("by", 0.5),), "clamp": (("from", -1.0), ("to", 1.0)), "mean": (), "patch": (("from example", 0),),
}  # fmt: skip
"""The numbers of each kind of change, with those to begin with."""

_PARTS: Final = ("channels", "tokens", "heads", "units")


def part_of(layer: str, text: str) -> dict[str, Any]:
    """Return the part of an output that a person writes, for `zero` and the like.

    Args:
        layer: The layer, for the message.
        text: ``3, 17`` (channels), ``tokens -1``, ``heads 0 of 12``, ``units 3 5 5`` (one element), ``channels 3 dim 1``, or
            nothing for the whole output.

    Raises:
        InspectionError: If it is written in another way.
    """
    words = text.replace(",", " ").lower().split()
    part = f"{words.pop(0).rstrip('s')}s" if words and words[0].isalpha() else _PARTS[0]
    further: dict[str, Any] = {}
    try:
        while len(words) > 2 and words[-2] in ("of", "dim"):
            *words, name, number = words
            further[name] = int(number)
        places = [*map(int, words)]
    except ValueError:
        part = ""
    if part not in _PARTS or (text.strip() and not places):
        raise InspectionError(
            f"{layer}: channels are numbers such as 3, 17; other parts are tokens -1, heads 0, heads 0 of 12, units 3 5 5 (one"
            f" element), or channels 3 dim 1; nothing is the whole output. {text!r} is none of these."
        )
    return {part: [tuple(places)] if part == "units" else places, **further} if places else {}


@final
class ChangeRow(ipywidgets.HBox):
    """One change of a layer, which can be edited, switched off and removed.

    Args:
        layer: Path of the layer.
        where: The part of its output that is changed; see `part_of`.
        asked: Returns the model with its examples.
        changed: Called after each edit.
        removed: Called with the row when it is removed.
    """

    def __init__(
        self,
        layer: str,
        where: str,
        asked: Callable[[], Asked],
        changed: Callable[[], None],
        removed: Callable[[ChangeRow], None],
    ) -> None:
        self.layer, self._asked = layer, asked
        self.on = ipywidgets.Checkbox(
            value=True, description=layer, indent=False, layout=ipywidgets.Layout(width="auto")
        )
        self.kind = chooser(list(_NUMBERS), "", self._fill, tooltip=f"What is done to {layer}")
        self.channels = ipywidgets.Text(
            value=where, placeholder="all", description="channels", continuous_update=False,
            tooltip="Such as 3, 17, tokens -1, heads 0 of 12, units 3 5 5, or channels 3 dim 1",
            layout=ipywidgets.Layout(width="190px"), style={"description_width": "auto"},
        )  # fmt: skip
        self.numbers = [
            ipywidgets.FloatText(layout=ipywidgets.Layout(width="110px"), style={"description_width": "auto"})
            for _ in range(2)
        ]
        remove = button("", f"Remove the change of {layer}", lambda: removed(self), icon="times")
        super().__init__([self.on, self.kind, self.channels, *self.numbers, remove])
        self._fill()
        for control in (self.on, self.kind, self.channels, *self.numbers):
            control.observe(lambda _change: changed(), "value")
            answer_while_busy(control)

    def __repr__(self) -> str:
        return f"ChangeRow({self.layer}: {self.kind.value}, {self.channels.value or 'all'})"

    def change(self) -> Change:
        """Return what the row says.

        Raises:
            InspectionError: If the part is written in another way than `part_of` reads.
            ArgumentError: If the bounds of a clamp are in the wrong order, or there is no such example for a patch.
        """
        part = part_of(self.layer, self.channels.value)
        first, second = (number.value for number in self.numbers)
        match self.kind.value:
            case "scale":
                return scale(first, **part)
            case "clamp":
                return clamp(first, second, **part)
            case "mean":
                return mean(**part)
            case "patch":
                examples = self._asked().examples
                return patch(examples.cut([require_place(int(first), examples.count)]).inputs, **part)
            case _:
                return zero(**part)

    def _fill(self) -> None:
        for number, wanted in zip(self.numbers, (*_NUMBERS[self.kind.value], None, None), strict=False):
            number.layout.display = "none" if wanted is None else ""
            if wanted is not None:
                number.description, number.value = wanted


@final
class WhatIf(ipywidgets.VBox):
    """All changes of layers, and what they do.

    Args:
        access: How it gets at the model.
        changed: Called after each edit.
    """

    def __init__(self, access: Access, changed: Callable[[], None]) -> None:
        self._access, self._changed, self._work = access, changed, Piecework()
        self.rows: list[ChangeRow] = []
        self._lines = ipywidgets.VBox()
        self._data, self._keep, self._clear = (
            button(words, more, act)
            for words, more, act in (
                ("Over the data", "Accuracy and loss before and after", self.over_the_data),
                (
                    "Keep in the graph",
                    "Write the changes into explorer.graph as one edit, which can be undone",
                    self.keep,
                ),
                ("Remove all", "Remove all changes", self.clear),
            )
        )
        self._said = ipywidgets.HTML()
        buttons = self._data, self._keep, self._clear
        super().__init__(
            [ipywidgets.HTML("<strong>What if</strong>"), self._lines, ipywidgets.HBox(buttons), self._said]
        )
        self.add_class("pnne-what-if")
        self.layout.display = "none"

    def __repr__(self) -> str:
        return f"WhatIf({len(self.rows)} changes)"

    def close(self) -> None:
        """Close the widget, and give up what is measured."""
        self._work.stop()
        super().close()

    def add(self, layer: str, where: str = "") -> None:
        """Set a layer's output, or a part of it, to zero; the row can be edited."""
        self.rows.append(ChangeRow(layer, where, self._access.asked, self._edited, self._remove))
        self._edited()

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """Layer, kind, part and numbers of each row that is switched on; it can be set.

        Raises:
            ArgumentError: When set to something else.
            LayerNotFoundError: When set to rows of a layer that does not exist.
        """
        return [
            (
                row.layer,
                kind := row.kind.value,
                row.channels.value,
                *(n.value for n in row.numbers[: len(_NUMBERS[kind])]),
            )
            for row in self.rows
            if row.on.value
        ]

    @values.setter
    def values(self, values: Sequence[tuple[Any, ...]]) -> None:
        expect(values, list | tuple, "changes", "a list of rows", _ROW)
        rows = [_checked(self._access.asked().net, value) for value in values]
        self.clear()
        for layer, kind, where, *numbers in rows:
            self.add(layer, where)
            self.rows[-1].kind.value = kind
            for number, value in zip(self.rows[-1].numbers, numbers, strict=False):
                number.value = value

    def clear(self) -> None:
        """Remove all changes."""
        for row in tuple(self.rows):
            self._drop(row)
        self._edited()

    def changes(self) -> dict[str, list[Change]]:
        """Return the changes that are switched on, by layer; see `ChangeRow.change` for errors."""
        found: dict[str, list[Change]] = {}
        for row in self.rows:
            if row.on.value:
                found.setdefault(row.layer, []).append(row.change())
        return found

    def lines(self) -> list[str]:
        """Return what is shown as lines of plain text."""
        said = []
        for layer, kind, where, *numbers in self.values:
            how = "".join(f" {word} {n:g}," for (word, _), n in zip(_NUMBERS[kind], numbers, strict=True))
            said.append(f"What if: {layer}, {kind}{how} {where or 'all'}")
        return said

    def over_the_data(self) -> None:
        """Show accuracy and loss before and after."""
        if self._work.stop():
            self._data.description = "Over the data"
            self._say("Cancelled.")
            return

        def work() -> Generator[object, None, None]:
            found: tuple[list[Any], list[Any]] = [], []
            try:
                asked, changes = self._access.asked(), self.changes()
                places = asked.batches()
                for place, batch in enumerate(places):
                    self._say(f"{place} of {len(places)} batches<progress max={len(places)} value={place}></progress>")
                    yield None
                    for answers, change in zip(found, (None, changes), strict=True):
                        answers.append(self._access.alone(partial(asked.batch, batch, change)))
                self._say(_compared(*map(joined, found)))
            except Exception as error:  # noqa: BLE001  shown where it was provoked
                self._said.value = refused(error)
            self._data.description = "Over the data"

        self._data.description = "Cancel"
        self._work.start(work())

    def keep(self) -> None:
        """Write the changes into the drawn graph, as one edit that can be undone."""

        def kept() -> str:
            names = ", ".join(node.path for node in keep(self._access.graph(), self.changes()))
            return _status(
                f"Kept in explorer.graph as one edit: {html.escape(names)}. pn.GraphEditor(explorer.graph) shows it,"
                " pn.compile(explorer.graph) is the changed model, and explorer.graph.undo() takes it back."
            )

        show_in(self._said, kept)

    def _say(self, text: str) -> None:
        self._said.value = _status(text)

    def _edited(self) -> None:
        self._lines.children = tuple(self.rows)
        self.layout.display = "" if self.rows else "none"
        self._say("")
        self._changed()

    def _remove(self, row: ChangeRow) -> None:
        self._drop(row)
        self._edited()

    def _drop(self, row: ChangeRow) -> None:
        self.rows.remove(row)
        self._lines.children = tuple(self.rows)
        close_whole(row)


def _status(text: str) -> str:
    return f'<div role="status">{text}</div>' if text else ""


_ROW: Final = 'Write changes=[("conv1", "scale", "0, 3", 0.5)]: layer, kind, part and numbers.'


def _checked(net: nn.Module, value: object) -> tuple[Any, ...]:
    """Return a row of changes as it is written in the panel, where channels may be numbers too."""
    match value:
        case (str() as layer, kind, where, *numbers) if all(isinstance(number, int | float) for number in numbers):
            place_of(net, layer)
            choose(kind, list(_NUMBERS), "kind")
            if not isinstance(where, str):
                where = ", ".join(map(str, whole_numbers(where) or (where,)))
            part_of(layer, where)
            return layer, kind, where, *numbers
        case _:
            raise ArgumentError(f"{shown(value)} is no row of changes. {_ROW}")


def _compared(before: Answers, after: Answers) -> str:
    rows = [("accuracy", before.accuracy, after.accuracy, "{:.1%}")]
    rows.append(("loss", float(np.nanmean(before.loss)) if np.isfinite(before.loss).any() else np.nan,
                 float(np.nanmean(after.loss)) if np.isfinite(after.loss).any() else np.nan, "{:.4g}"))  # fmt: skip
    cells = "".join(
        f"<tr><th>{name}</th><td>{form.format(one)}</td><td>{form.format(other)}</td></tr>"
        for name, one, other, form in rows
        if np.isfinite(one) or np.isfinite(other)
    )
    moved = int((before.chosen != after.chosen).sum())
    return (
        f"{moved:,} of {len(before.chosen):,} answers change."
        f'<table class="pnne-facts"><tr><th></th><th>before</th><th>after</th></tr>{cells}</table>'
    )
