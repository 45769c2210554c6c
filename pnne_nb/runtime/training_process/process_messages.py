"""Defines the messages between the kernel and the process of a training."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pnne_nb.process.direct_buttons import Press
from pnne_nb.runtime.distributed.transport.worker_messages import Observed, Orders
from pnne_nb.runtime.loop.loop_events import Event
from pnne_nb.telemetry.frames import MemoryFrame, TimeFrame

Parcel: TypeAlias = list[bytes]
"""A pickle in parts, none of which is too large for a message; see `handover`."""


class _Message(msgspec.Struct, frozen=True, tag=True):
    pass


# From the kernel


class KernelContext(_Message, frozen=True):
    """The first word to a process: what a thread of the kernel would find around it, registered node types included."""

    directory: str
    search_path: list[str]
    environment: dict[str, str]
    nodes: list[bytes]


class Handed(_Message, frozen=True):
    """What to train, or from where to go on: a `Recipe`, the state of a loop, a `Handover`. The process waits for `Go` afterwards.

    The sources of a later recipe are those of the one before. If `is_edited`, the steps so far are another training's, so
    that none of them can be taken back.
    """

    recipe: Parcel
    state: Parcel
    manner: Parcel
    is_edited: bool = False


class Go(_Message, frozen=True):
    """Make so many steps, or run on with None.

    It halts after whatever concerns one of the `topics`, see `Listeners`: somebody in the kernel wants to be there then.
    """

    steps: int | None
    topics: list[str]


class Halt(_Message, frozen=True):
    """Halt after the running step; says nothing to a process that has halted."""


class Ask(_Message, frozen=True):
    """To a process that has halted: tell the state."""


class Stop(_Message, frozen=True):
    """To a process that has halted: end the epoch where it is, tell the state, and leave."""


class GiveUp(_Message, frozen=True):
    """To a process that does not halt: where it waits for data, the model is whole, and can be told from beside it."""


FromKernel: TypeAlias = KernelContext | Handed | Go | Halt | Ask | Stop | GiveUp | Orders


# From the process


class ProcessHello(_Message, frozen=True):
    """The first word: the number of the process, and where pages may halt it without the kernel, or an empty text."""

    pid: int
    buttons: str


class ProcessReady(_Message, frozen=True):
    """What was handed over is unpacked; the process has halted."""


class ProcessEvent(_Message, frozen=True):
    """An event of the loop; it has no answer.

    Attributes:
        step: Optimizer steps made so far.
        epoch: The epoch under way, from 1.
        position: Batches of that epoch already used.
        state: Of the loop after this event, where a checkpoint of it is due.
    """

    event: Event
    step: int
    epoch: int
    position: int
    state: Parcel | None = None


class Looked(_Message, frozen=True):
    """Memory and time of the process."""

    memory: MemoryFrame
    times: TimeFrame


class Alive(_Message, frozen=True):
    """Every second: what is going on in words, and whether the data is at work, not the model."""

    doing: str
    fetching: bool


class ProcessKept(_Message, frozen=True):
    """The state after the last event, unasked: what the training falls back to if the process dies."""

    state: Parcel


class Pressed(_Message, frozen=True):
    """A page has halted it by a button without the kernel, at a time in seconds since 1970: a later command counts more."""

    press: Press
    at: float


class Halted(_Message, frozen=True):
    """It has halted, and everything before was told."""


class Told(_Message, frozen=True):
    """The state that was asked for."""

    state: Parcel


class ProcessEnded(_Message, frozen=True):
    """The last word: where the training is, whether the last epoch was made, and the last steps, see `StepRing.kept`."""

    state: Parcel
    finished: bool
    steps: Parcel


class Failed(_Message, frozen=True):
    """The last word of a training that has failed.

    Attributes:
        error: The exception, see `handover.packed_error`.
        doing: What was going on.
        fetching: Whether the data was at work, not the model.
        state: Where the training is, as after a failure in a thread; None if it never began, or cannot be told.
        steps: The last steps, see `StepRing.kept`; None likewise.
    """

    error: bytes
    doing: str
    fetching: bool
    state: Parcel | None
    steps: Parcel | None


FromProcess: TypeAlias = (
    ProcessHello
    | ProcessReady
    | ProcessEvent
    | Looked
    | Alive
    | Observed
    | ProcessKept
    | Pressed
    | Halted
    | Told
    | ProcessEnded
    | Failed
)
