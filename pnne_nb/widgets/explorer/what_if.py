"""The rows of changes under the example: each can be switched off, all are measured over the data, and kept in a graph."""

from __future__ import annotations

import html
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, final

import ipywidgets
import numpy as np

from pnne_nb.errors import InspectionError
from pnne_nb.inspector.questions.changes import Change, clamp, mean, scale, zero
from pnne_nb.inspector.questions.intervene import keep
from pnne_nb.widgets.explorer.answers import Access, Answers, joined, refused
from pnne_nb.widgets.host.displays import answer_while_busy, button, chooser, close_whole
from pnne_nb.widgets.host.piecework import Piecework

KINDS: Final = ("zero", "scale", "clamp", "mean")

_WIDTH: Final = {
    "zero": (),
    "scale": (("by", 0.5),),
    "clamp": (("from", -1.0), ("to", 1.0)),
    "mean": (),
}
"""The numbers of each kind of change, with those to begin with."""


@final
class ChangeRow(ipywidgets.HBox):
    """One change of a layer, which can be edited, switched off and removed.

    Args:
        layer: Path of the layer.
        channels: Its channels that are changed; none for the whole output.
        changed: Called after each edit.
        removed: Called with the row when it is removed.
    """

    def __init__(
        self, layer: str, channels: str, changed: Callable[[], None], removed: Callable[[ChangeRow], None]
    ) -> None:
        self.layer = layer
        self.on = ipywidgets.Checkbox(
            value=True, description=layer, indent=False, layout=ipywidgets.Layout(width="auto")
        )
        self.kind = chooser(KINDS, "", self._fill, tooltip=f"What is done to {layer}")
        self.channels = ipywidgets.Text(
            value=channels, placeholder="all", description="channels", continuous_update=False,
            layout=ipywidgets.Layout(width="170px"), style={"description_width": "auto"},
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
            InspectionError: If the channels are no numbers.
            ArgumentError: If the bounds of a clamp are in the wrong order.
        """
        words = self.channels.value.replace(",", " ").split()
        if not all(word.lstrip("-").isdigit() for word in words):
            raise InspectionError(
                f"{self.layer}: channels are numbers such as 3, 17, or nothing for all of them, not {self.channels.value!r}."
            )
        part: Any = {"channels": [int(word) for word in words]} if words else {}
        first, second = (number.value for number in self.numbers)
        match self.kind.value:
            case "scale":
                return scale(first, **part)
            case "clamp":
                return clamp(first, second, **part)
            case "mean":
                return mean(**part)
            case _:
                return zero(**part)

    def _fill(self) -> None:
        for number, wanted in zip(self.numbers, (*_WIDTH[self.kind.value], None, None), strict=False):
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

    def add(self, layer: str, channels: str = "") -> None:
        """Set a layer's output, or channels of it, to zero; the row can be edited."""
        self.rows.append(ChangeRow(layer, channels, self._edited, self._remove))
        self._edited()

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """Layer, kind, channels and numbers of each row that is switched on; it can be set."""
        return [
            (
                row.layer,
                row.kind.value,
                row.channels.value,
                *(n.value for n in row.numbers[: len(_WIDTH[row.kind.value])]),
            )
            for row in self.rows
            if row.on.value
        ]

    @values.setter
    def values(self, values: Sequence[tuple[Any, ...]]) -> None:
        self.clear()
        for layer, kind, channels, *numbers in values:
            self.add(layer, channels)
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
        return [f"What if: {layer}, {kind} {channels or 'all'}" for layer, kind, channels, *_ in self.values]

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
        try:
            made = keep(self._access.graph(), self.changes())
            names = ", ".join(node.path for node in made)
            self._say(
                f"Kept in explorer.graph as one edit: {html.escape(names)}. pn.GraphEditor(explorer.graph) shows it,"
                " pn.compile(explorer.graph) is the changed model, and explorer.graph.undo() takes it back."
            )
        except Exception as error:  # noqa: BLE001  shown where it was provoked
            self._said.value = refused(error)

    def _say(self, text: str) -> None:
        self._said.value = f'<div role="status">{text}</div>' if text else ""

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
