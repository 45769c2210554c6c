"""The messages between Python and the widgets of dashboard and explorer.

A request that carries an `id` is answered by a `Reply` with the same one.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypedDict

import msgspec

from pnne_nb.telemetry.frames import TrainingState

Command: TypeAlias = Literal["start", "pause", "resume", "step", "stop", "validate", "save", "rewind", "batch", "skip"]
"""What the buttons of the control bar do."""

Move: TypeAlias = Literal["next", "previous", "in", "out", "toggle"]
"""To the next or the previous layer in sight, into a layer or out of it, open or close it."""

PageTheme: TypeAlias = Literal["light", "dark"]


class _Message(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    pass


class _Request(_Message, frozen=True):
    id: int


# From the browser


class CommandMessage(_Request, frozen=True, tag="command"):
    """A button was pressed."""

    command: Command


class ChooseMessage(_Request, frozen=True, tag="choose"):
    """A layer was chosen for the histogram."""

    layer: str


class ScaleMessage(_Request, frozen=True, tag="scale"):
    """Switch a plot between a linear and a logarithmic axis."""

    log: bool


class RateMessage(_Request, frozen=True, tag="rate"):
    """A learning rate was typed."""

    rate: Annotated[float, msgspec.Meta(ge=0)]


class ShowMessage(_Request, frozen=True, tag="show"):
    """Show the training on its graph, or hide it."""

    on: bool


class ExportMessage(_Request, frozen=True, tag="export"):
    """Show the export dialog under the bar, or hide it."""

    on: bool


class DismissMessage(_Request, frozen=True, tag="dismiss"):
    """Dismiss a finding by its number; null shows all of them again."""

    number: int | None


class AckMessage(_Message, frozen=True, tag="ack"):
    """Frame number `tick` was painted. Not answered."""

    tick: int


class MoveMessage(_Message, frozen=True, tag="move"):
    """A key was pressed in the explorer's graph. Not answered."""

    move: Move


class AskMessage(_Message, frozen=True, tag="ask"):
    """A number or a cell with ``data-pnne-ask`` was pressed in the page. Not answered."""

    ask: str


class DropMessage(_Message, frozen=True, tag="drop"):
    """A file was dropped on the example. Its content is the message's buffer; there is none if it is too large. Not answered."""

    name: str


ControlRequest: TypeAlias = (
    CommandMessage | ChooseMessage | ScaleMessage | RateMessage | ShowMessage | ExportMessage | DismissMessage | AckMessage
)  # fmt: skip


# To the browser


class EvidenceBar(msgspec.Struct, frozen=True, rename="camel"):
    """One of the numbers that show a finding."""

    label: str
    value: float


class EvidenceCurve(msgspec.Struct, frozen=True, rename="camel"):
    """The curve of a quantity up to a finding; null where it was not finite."""

    label: str
    values: list[float | None]


class Notice(msgspec.Struct, frozen=True, rename="camel"):
    """A finding: its step and node, its meaning, the remedy, and the evidence for a small picture.

    Attributes:
        code: Its kind, which `pn.explain` takes, or None of an event.
        alarms: How often its kind is wrong, in words, or None of an event.
    """

    number: int
    step: int
    message: str
    node: str | None
    hint: str | None
    code: str | None
    alarms: str | None
    bars: list[EvidenceBar]
    curves: list[EvidenceCurve]


class Saved(msgspec.Struct, frozen=True, rename="camel"):
    """A checkpoint: the last step that it holds, and its file."""

    step: int
    path: str


class TrainingStatus(msgspec.Struct, rename="camel"):
    """The status of a training in the control bar.

    Attributes:
        waiting: What the running training waits for, in words, or None.
        edited: Whether the graph says something else than what is in training.
        error: Why it failed, or None.
        node: The node that failed, by its path on screen, or None.
        seconds_left: Estimate to the end, in seconds, or None.
        cost: Share of the time that watching the layers takes, 0 to 1, or None before it was measured.
        cost_margin: Half of its 95 % interval, or None while there are too few observed steps to tell.
        loss_scale: The factor of scaled gradients (float16), or None without scaling.
        skipped_steps: Steps that left the parameters as they were, because a scaled gradient overflowed.
        saved: The latest checkpoint, or None while there is none.
        dropped: Frames that came too fast to be looked at.
        notices: What was found, the most probable cause first, and what has happened, in its order.
        dismissed: Findings that a person has dismissed.
        remedies: What can be done about a NaN that has ended the training.
        batch_text: The batch that it came from, in words, while it is shown; else empty.
    """

    state: TrainingState = "idle"
    waiting: str | None = None
    edited: bool = False
    error: str | None = None
    node: str | None = None
    epoch: int = 0
    epochs: int = 0
    batch: int = 0
    batches: int | None = None
    step: int = 0
    steps_per_second: float = 0.0
    seconds_left: float | None = None
    learning_rate: float | None = None
    cost: float | None = None
    cost_margin: float | None = None
    frames_per_second: float = 0.0
    loss_scale: float | None = None
    skipped_steps: int = 0
    saved: Saved | None = None
    dropped: int = 0
    notices: list[Notice] = []
    dismissed: int = 0
    remedies: list[Command] = []
    batch_text: str = ""


class Reply(_Message, frozen=True, tag="reply"):
    """The answer to a request: None, or why it was refused."""

    id: int
    error: str | None


class Update(TypedDict):
    """The update of one widget.

    Attributes:
        model: The widget's id.
        state: Its traits that have changed.
        paths: Where in the state its binary parts belong; as many of the message's buffers are this update's.
    """

    model: str
    state: dict[str, object]
    paths: list[object]


class PictureMessage(TypedDict):
    """The updates of several widgets in one message; the binary parts of all are the message's buffers, in order.

    A dictionary, because a widget's state is sent as ipywidgets has prepared it, and is not looked at again.
    """

    kind: Literal["picture"]
    updates: list[Update]


ControlEvent: TypeAlias = Reply | PictureMessage
