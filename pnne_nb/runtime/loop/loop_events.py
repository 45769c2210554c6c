"""Defines the events of a training: what its loop has done between two halts."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, StepFrame


class Stepped(msgspec.Struct, frozen=True, tag=True):
    """One optimizer step was made."""

    frame: StepFrame


class Validated(msgspec.Struct, frozen=True, tag=True):
    """One batch of the validation data was looked at.

    Attributes:
        batch: Its number, from 1.
    """

    batch: int


class Judged(msgspec.Struct, frozen=True, tag=True):
    """A validation in the middle of an epoch is complete.

    Attributes:
        improved: Whether what counts was never as good.
    """

    frame: EpochFrame
    improved: bool


class EpochEnded(msgspec.Struct, frozen=True, tag=True):
    """An epoch is complete, its validation included.

    Attributes:
        improved: Whether what counts was measured, and was never as good.
    """

    frame: EpochFrame
    improved: bool


class Eased(msgspec.Struct, frozen=True, tag=True):
    """Memory was too small for a batch: from here on, batches are cut into pieces.

    Attributes:
        validating: Whether of the validation data, not before a step.
    """

    frame: AnomalyFrame
    validating: bool = False


class Restored(msgspec.Struct, frozen=True, tag=True):
    """The training is over, and the model has its best weights back."""

    frame: AnomalyFrame


class Restarted(msgspec.Struct, frozen=True, tag=True):
    """One of several processes had died, and all have begun again at a checkpoint."""

    frame: AnomalyFrame


class Unsaved(msgspec.Struct, frozen=True, tag=True):
    """Several processes train, and a checkpoint of theirs could not be written."""

    frame: AnomalyFrame


class Waiting(msgspec.Struct, frozen=True, tag=True):
    """Other processes are at work, and nothing has happened for a moment."""


Event: TypeAlias = Stepped | Validated | Judged | EpochEnded | Eased | Restored | Restarted | Unsaved | Waiting
