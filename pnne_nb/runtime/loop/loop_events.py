"""The events that a training loop yields."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, StepFrame


class Stepped(msgspec.Struct, frozen=True, tag=True):
    """One optimizer step was made."""

    frame: StepFrame


class Validated(msgspec.Struct, frozen=True, tag=True):
    """One batch of the validation data was evaluated; its number is from 1."""

    batch: int


class Judged(msgspec.Struct, frozen=True, tag=True):
    """A validation in the middle of an epoch is complete; it has `improved` if what counts was never as good."""

    frame: EpochFrame
    improved: bool


class EpochEnded(msgspec.Struct, frozen=True, tag=True):
    """An epoch is complete, its validation included; it has `improved` if what counts was measured and never as good."""

    frame: EpochFrame
    improved: bool


class Eased(msgspec.Struct, frozen=True, tag=True):
    """A batch, of the validation data if `validating`, did not fit in memory: from here on, batches are cut into pieces."""

    frame: AnomalyFrame
    validating: bool = False


class Restored(msgspec.Struct, frozen=True, tag=True):
    """The training has ended, and the model has its best weights again."""

    frame: AnomalyFrame


class Restarted(msgspec.Struct, frozen=True, tag=True):
    """One of several processes died, and all have restarted from a checkpoint."""

    frame: AnomalyFrame


class Unsaved(msgspec.Struct, frozen=True, tag=True):
    """A checkpoint of several processes could not be written."""

    frame: AnomalyFrame


class Waiting(msgspec.Struct, frozen=True, tag=True):
    """Nothing was made: other processes are working, or a cell that has changed a mode of the model, or compiles."""


Event: TypeAlias = Stepped | Validated | Judged | EpochEnded | Eased | Restored | Restarted | Unsaved | Waiting
