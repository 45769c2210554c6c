"""Defines the messages between a group of training processes and the engine that launched it."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import TypeAlias

import msgspec

from pnne_nb.errors import Diagnostic
from pnne_nb.runtime.loop.loop_events import Eased, EpochEnded, Event, Judged, Stepped, Validated
from pnne_nb.telemetry.frames import Frame
from pnne_nb.telemetry.probe import Watch

Place: TypeAlias = tuple[int, int, int, int]
"""Epoch, batches of it, and what comes after those in their order."""


class _Message(msgspec.Struct, frozen=True, tag=True):
    pass


class Hello(_Message, frozen=True):
    """The first message of every process on the engine's machine.

    It has its number in the group (`rank`) and in the operating system, and how often the group was restarted before.
    """

    rank: int
    pid: int
    restart: int


class Ready(_Message, frozen=True):
    """One process, for all of them: the group waits for its first verdict, after so many steps."""

    step: int


class Happened(_Message, frozen=True):
    """One process, for all of them: an event of the loop; the group waits for a verdict.

    Attributes:
        step: Steps made so far.
        epoch: The epoch under way, from 1.
        position: Batches of that epoch already used.
        saved: Whether a checkpoint of this very state was written.
    """

    event: Event
    step: int
    epoch: int
    position: int
    saved: bool

    @property
    def place(self) -> Place:
        """Where in the training the event is: of two, the later has the greater one."""
        match self.event:
            case Eased(validating=True):
                # Behind its last batch, whatever the number of that.
                kind, batch = 1, sys.maxsize
            case Eased():
                # Before its step, and several times if need be.
                kind, batch = -1, 0
            case Stepped() | EpochEnded():
                kind, batch = 0, 0
            case Validated(batch=batch):
                kind = 1
            case Judged():
                kind, batch = 2, 0
            case _:
                kind, batch = 3, 0
        return self.epoch, self.position, kind, batch


class Observed(_Message, frozen=True):
    """One process, for all of them, in the middle of a step: what was measured of its share of the batch.

    The `order` is the number of the one that was carried out, or None for what observing costs.
    """

    order: int | None
    frames: list[Frame]


class Refused(_Message, frozen=True):
    """A checkpoint could not be written, and no request waits for it; the message says why, and which one is the newest."""

    step: int
    message: str


class Kept(_Message, frozen=True):
    """Where the state of the group is that the engine needs.

    Attributes:
        written: Whether the newest checkpoint holds it.
        content: If not: what the checkpoint would hold; empty if this process has not got it, or it is too large.
    """

    written: bool
    content: bytes = b""


class Obeyed(_Message, frozen=True):
    """One process, for all of them: the checkpoint that was asked for is written or read; the group waits again."""

    kept: Kept


class Ended(_Message, frozen=True):
    """One process, for all of them: the last checkpoint is written, and the group ends."""

    kept: Kept


class Broke(_Message, frozen=True):
    """A process ends because of an exception.

    Attributes:
        rank: Which one.
        kind: The exception's class.
        message: What it says; of one that is not this package's, with its class.
        diagnostics: What it points at.
        doing: What the process was doing.
        fetching: Whether the data was at work, not the model.
        trace: The traceback.
        saved: Whether the state at hand was written as a checkpoint.
        found: Whether it has found in its own part of the batch what another one has failed of as well.
    """

    rank: int
    kind: str
    message: str
    diagnostics: list[Diagnostic]
    doing: str
    fetching: bool
    trace: str
    saved: bool
    found: bool


class Dismissed(_Message, frozen=True):
    """A process is ended by torchrun, because another one has ended. One that ends without a message has died."""


FromWorker: TypeAlias = Hello | Ready | Happened | Observed | Refused | Obeyed | Ended | Broke | Dismissed


class Verdict(IntEnum):
    """What a group that waits shall do."""

    GO = 0
    """Go on to the next event."""
    SAVE = 1
    """Write a checkpoint, and wait again."""
    LOAD = 2
    """Read the newest checkpoint, and wait again."""
    STOP = 3
    """Write a checkpoint, and end."""


class HandedOver(_Message, frozen=True):
    """The first word to every process: what it is given beside the files; see `pickled_objects`."""

    luggage: bytes


class Order(_Message, frozen=True):
    """What one of the engine's probes wants to know, and how many times a second at most.

    The `number` names it in `Observed`; the `budget` is the share of the running time that it may take.
    """

    number: int
    watch: Watch
    hz: float
    budget: float


class Orders(_Message, frozen=True):
    """All that is to be measured from now on, in the place of what was ordered before."""

    orders: list[Order]


FromEngine: TypeAlias = Verdict | HandedOver | Orders
