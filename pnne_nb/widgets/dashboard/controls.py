"""Defines the dashboard's own widgets, control bar, layer chooser and switches, with one front-end module for all."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, final, get_args

import anywidget
import msgspec
import traitlets

from pnne_nb.errors import PnneError
from pnne_nb.protocol.control_messages import Command, CommandMessage, ControlRequest, Reply
from pnne_nb.widgets.host.bundle import bundled
from pnne_nb.widgets.host.displays import answer_while_busy
from pnne_nb.widgets.host.pump import IN_FLIGHT

_SCRIPT: Final = bundled("controls.js")
_STYLE: Final = bundled("controls.css")
_OVERHEARD: Final = 16
"""Most messages that were carried out early and still wait for their answer."""


class ControlWidget(anywidget.AnyWidget):
    """A widget that receives messages on any thread, also while a cell runs, and answers them by number.

    Args:
        answer: Carries out a message; its errors are shown beside the control.
    """

    _esm = _SCRIPT
    _css = _STYLE
    part = traitlets.Unicode().tag(sync=True)

    def __init__(self, answer: Callable[[ControlRequest], None], **traits: Any) -> None:
        super().__init__(**traits)
        self._answer = answer
        self.on_msg(self._on_message)
        answer_while_busy(self, self._overhear)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def close(self) -> None:
        """Close the widget here and in the browser."""
        self._answer = lambda _message: None
        super().close()

    def _overhear(self, content: object) -> None:
        """Receive a message a moment before `answer` does."""

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        error = None
        try:
            self._carry_out(msgspec.convert(content, ControlRequest))
        except (PnneError, ValueError, RuntimeError) as refusal:
            error = str(refusal)
        number = content.get("id") if isinstance(content, dict) else None
        if isinstance(number, int):
            self.send(msgspec.to_builtins(Reply(number, error)))

    def _carry_out(self, message: ControlRequest) -> None:
        self._answer(message)


@final
class ControlBar(ControlWidget):
    """Buttons, state, progress, error panel and findings.

    If a cell holds Python's lock for seconds at a time, every switch of threads waits for it. The first thread that
    receives Pause or Stop therefore carries it out, if ipykernel allows; the answer comes as usual.

    Args:
        answer: Carries out a message; its errors are shown beside the control.

    Attributes:
        status: A `pnne_nb.protocol.control_messages.TrainingStatus` as plain JSON.
        tick: Number of the latest frame.
        in_flight: Most frames that are sent without an acknowledgement; the browser acknowledges every such number.
        shown: Whether an editor shows the training on its graph.
        exporting: Whether the export dialog is shown.
        offers: The commands with a button, and ``"rate"``, ``"show"`` and ``"export"`` of the rest of the bar.
        direct: Address to which Pause and Stop are also sent, in case the kernel is busy; empty if there is none.
    """

    part = traitlets.Unicode("bar").tag(sync=True)
    status = traitlets.Dict().tag(sync=True)
    tick = traitlets.Int(0).tag(sync=True)
    in_flight = traitlets.Int(IN_FLIGHT, read_only=True).tag(sync=True)
    shown = traitlets.Bool(False).tag(sync=True)
    exporting = traitlets.Bool(False).tag(sync=True)
    offers = traitlets.List(traitlets.Unicode(), [*get_args(Command), "rate", "show", "export"]).tag(sync=True)
    direct = traitlets.Unicode("").tag(sync=True)

    def __init__(self, answer: Callable[[ControlRequest], None], **traits: Any) -> None:
        self._carried_out = deque[ControlRequest](maxlen=_OVERHEARD)
        super().__init__(answer, **traits)

    def _overhear(self, content: object) -> None:
        match message := msgspec.convert(content, ControlRequest):
            case CommandMessage(_, "pause" | "stop"):
                self._answer(message)
                self._carried_out.append(message)

    def _carry_out(self, message: ControlRequest) -> None:
        if message in self._carried_out:
            self._carried_out.remove(message)
        else:
            self._answer(message)


@final
class LayerChooser(ControlWidget):
    """The histogram's heading, with the choice of layer and quantity.

    Attributes:
        layers: The choices: paths of layers, followed by the quantity in brackets if it is not the activations.
        layer: The chosen one, or ``""``.
        caption: The size of the sample, and the layer in the plot if it is not yet the chosen one.
        log: Whether the axis of the counts is logarithmic.
    """

    part = traitlets.Unicode("chooser").tag(sync=True)
    layers = traitlets.List(traitlets.Unicode()).tag(sync=True)
    layer = traitlets.Unicode("").tag(sync=True)
    caption = traitlets.Unicode("").tag(sync=True)
    log = traitlets.Bool(False).tag(sync=True)


@final
class LogSwitch(ControlWidget):
    """A button that switches a plot's axis between linear and logarithmic.

    Attributes:
        log: Whether the axis is logarithmic.
    """

    part = traitlets.Unicode("switch").tag(sync=True)
    log = traitlets.Bool(False).tag(sync=True)
