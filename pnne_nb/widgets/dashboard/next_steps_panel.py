"""`NextStepsPanel`: what to do with a training that is over, as buttons below its dashboard."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from html import escape
from typing import Any, Final, final

import ipywidgets

from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.runtime.session.next_steps import NextSteps, Step
from pnne_nb.runtime.session.waiting import Started
from pnne_nb.telemetry.frames import TrainingState
from pnne_nb.widgets.host.displays import close_parts, widget_tree

_OVER: Final[frozenset[TrainingState]] = frozenset({"finished", "stopped"})


@final
class NextStepsPanel(ipywidgets.VBox):
    """A button for each line of `engine.next_steps()` that needs nothing but the engine; its line and its result stand below.

    A button runs the line that it shows, so that what it does can be typed, and changed, in a cell.

    Args:
        engine: The training.
    """

    children: Any  # ipywidgets has no types

    def __init__(self, engine: TrainingEngine) -> None:
        self._engine: TrainingEngine | None = engine
        self._state: TrainingState | None = None
        self._rows, self._line, self._result = ipywidgets.VBox(), ipywidgets.HTML(), ipywidgets.VBox()
        super().__init__([self._rows, self._line, self._result], layout=ipywidgets.Layout(display="none"))
        self.add_class("pnne-next-steps")

    def close(self) -> None:
        """Close it with what it shows; the engine stays."""
        self._engine = None
        self._show(())
        close_parts(self)
        super().close()

    def follow(self, state: TrainingState) -> None:
        """Be there once the training is over, and go when it goes on."""
        if state == self._state:
            return
        self._state = state
        self.layout.display = None if state in _OVER else "none"
        if state in _OVER:
            _close(self._rows.children)
            self._rows.children = [
                ipywidgets.HBox([_heading(purpose), *buttons], layout=ipywidgets.Layout(flex_flow="row wrap"))
                for purpose, steps in NextSteps(state).steps.items()
                if (buttons := [self._button(step) for step in steps if step.button])
            ]

    def _button(self, step: Step) -> ipywidgets.Button:
        made = ipywidgets.Button(
            description=step.button, tooltip=f"{step.about}: {step.line}", layout=ipywidgets.Layout(width="auto")
        )
        made.on_click(lambda _: self.run(step))
        return made

    def run(self, step: Step) -> None:
        """Run the line of a step, and show it with its result, or with why it is refused."""
        if self._engine is None:
            return
        self._line.value = f"<pre>{escape(str(step))}</pre>"
        self._show(())
        try:
            value = eval(step.line, {"pn": sys.modules["pnne_nb"], "engine": self._engine})  # noqa: S307  # a line of our own table
        except Exception as error:  # noqa: BLE001  # whatever the line raises is its answer, as in a cell
            value = f"{type(error).__name__}: {error}"
        self._show(() if value is None or isinstance(value, Started) else (_shown(value),))

    def _show(self, widgets: tuple[ipywidgets.Widget, ...]) -> None:
        before, self._result.children = self._result.children, widgets
        _close(before)


def _close(widgets: Iterable[ipywidgets.Widget]) -> None:
    for widget in widgets:
        parts = widget_tree(widget)
        widget.close()  # first as it closes itself: it may have a thread
        for part in parts:
            part.close()


def _heading(purpose: str) -> ipywidgets.HTML:
    return ipywidgets.HTML(f"<b>{purpose}</b>", layout=ipywidgets.Layout(width="64px"))


def _shown(value: Any) -> ipywidgets.Widget:
    if isinstance(value, ipywidgets.Widget):
        return value
    html = getattr(value, "_repr_html_", None)
    return ipywidgets.HTML(
        html() if html is not None else f"<pre style='white-space:pre-wrap'>{escape(str(value))}</pre>"
    )
