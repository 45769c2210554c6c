"""The dashboard's own widgets: control bar, layer chooser, switches. One front-end module serves all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, TypeAlias, final

import anywidget
import msgspec
import traitlets

from pnne_nb.errors import PnneError
from pnne_nb.widgets.bundle import bundled
from pnne_nb.widgets.comms import answer_while_busy
from pnne_nb.widgets.pacing import IN_FLIGHT

Command: TypeAlias = Literal["start", "pause", "resume", "step", "stop", "validate", "save"]

_SCRIPT: Final = bundled("controls.js")
_STYLE: Final = bundled("controls.css")


class _Message(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    pass


class CommandMessage(_Message, frozen=True, tag="command"):
    """A button was pressed."""

    id: int
    command: Command


class ChooseMessage(_Message, frozen=True, tag="choose"):
    """A layer was chosen for the histogram."""

    id: int
    layer: str


class ScaleMessage(_Message, frozen=True, tag="scale"):
    """A plot is to have a logarithmic axis, or no more."""

    id: int
    log: bool


class RateMessage(_Message, frozen=True, tag="rate"):
    """A learning rate was typed."""

    id: int
    rate: Annotated[float, msgspec.Meta(ge=0)]


class ShowMessage(_Message, frozen=True, tag="show"):
    """The training is to be shown on its graph, or no more."""

    id: int
    on: bool


class AckMessage(_Message, frozen=True, tag="ack"):
    """Frame number `tick` was painted."""

    tick: int


Message: TypeAlias = CommandMessage | ChooseMessage | ScaleMessage | RateMessage | ShowMessage | AckMessage


class Control(anywidget.AnyWidget):
    """A widget whose messages arrive also while a cell is running, on any thread, and are answered by number.

    Args:
        answer: Carries out a message; what it raises is shown beside the control.
    """

    _esm = _SCRIPT
    _css = _STYLE
    part = traitlets.Unicode().tag(sync=True)

    def __init__(self, answer: Callable[[Message], None], **traits: Any) -> None:
        super().__init__(**traits)
        self._answer = answer
        self.on_msg(self._on_message)
        answer_while_busy(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def close(self) -> None:
        """Close the widget here and in the browser."""
        self._answer = _ignore
        super().close()

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        error = None
        try:
            self._answer(msgspec.convert(content, Message))
        except (PnneError, ValueError, RuntimeError) as refusal:
            error = str(refusal)
        number = content.get("id") if isinstance(content, dict) else None
        if isinstance(number, int):
            self.send({"kind": "reply", "id": number, "error": error})


def _ignore(_message: Message) -> None:
    """A closed widget answers nothing."""


@final
class ControlBar(Control):
    """Buttons, state, progress, error panel and findings.

    Attributes:
        status: A `pnne_nb.widgets.status.Status` as plain JSON.
        tick: Number of the latest frame.
        in_flight: Frames that may be under way; the browser acknowledges each so many once painted.
        shown: Whether an editor shows the training on its graph.
    """

    part = traitlets.Unicode("bar").tag(sync=True)
    status = traitlets.Dict().tag(sync=True)
    tick = traitlets.Int(0).tag(sync=True)
    in_flight = traitlets.Int(IN_FLIGHT, read_only=True).tag(sync=True)
    shown = traitlets.Bool(False).tag(sync=True)


@final
class LayerChooser(Control):
    """The histogram's heading, with what to choose.

    Attributes:
        layers: Names of what can be chosen: paths of layers, with another quantity than activations in brackets.
        layer: The chosen one, or ``""``.
        caption: How much of the tensor was sampled, and of which layer the picture still is.
        log: Whether counts are shown logarithmically.
    """

    part = traitlets.Unicode("chooser").tag(sync=True)
    layers = traitlets.List(traitlets.Unicode()).tag(sync=True)
    layer = traitlets.Unicode("").tag(sync=True)
    caption = traitlets.Unicode("").tag(sync=True)
    log = traitlets.Bool(False).tag(sync=True)


@final
class LogSwitch(Control):
    """A button that turns a plot's axis logarithmic and back.

    Attributes:
        log: Whether it is.
    """

    part = traitlets.Unicode("switch").tag(sync=True)
    log = traitlets.Bool(False).tag(sync=True)
