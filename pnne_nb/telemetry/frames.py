"""Defines the frames: what is measured while training, as a closed union of tagged, frozen values.

The training thread makes frames, `channel` carries them, widgets draw them. No frame holds a tensor.
Losses, norms and statistics are plain floats and may be NaN or infinite.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

TrainingState: TypeAlias = Literal["idle", "running", "paused", "finished", "stopped", "failed"]

Quantity: TypeAlias = Literal["activations", "inputs", "gradients", "parameters", "parameter_gradients", "updates"]
"""What is watched at a layer: its outputs, its inputs, the gradients of its outputs, its parameters, their
gradients, or the last update of each parameter relative to the parameter."""

ENDED: frozenset[TrainingState] = frozenset({"finished", "stopped", "failed"})

ALIVE: frozenset[TrainingState] = frozenset({"running", "paused"})
"""States of a training that has a thread, and so frames to come."""


class _Frame(msgspec.Struct, frozen=True, tag_field="frame", rename="camel"):
    pass


class StepFrame(_Frame, frozen=True, tag="step"):
    """One optimizer step.

    Attributes:
        step: Number of optimizer steps done, from 1.
        epoch: The epoch it belongs to, from 1.
        loss: Training loss, averaged over the examples of the step.
        learning_rate: Of the first parameter group, as used in the step.
        examples: Number of examples in the step.
        seconds: Running time since the start, pauses left out.
        gradient_norm: Euclidean norm of all gradients before clipping; None where it was not taken.
        loss_scale: The factor of scaled gradients after the step; None without scaling.
        skipped: Whether the parameters stayed, because a scaled gradient overflowed.
        logged: Numbers that a step function recorded beside the loss, by name, averaged over the examples, or None.
    """

    step: int
    epoch: int
    loss: float
    learning_rate: float
    examples: int
    seconds: float
    gradient_norm: float | None = None
    loss_scale: float | None = None
    skipped: bool = False
    logged: dict[str, float] | None = None


class EpochStartFrame(_Frame, frozen=True, tag="epochStart"):
    """An epoch begins: no batch of it was used yet. Only listeners are told.

    Attributes:
        epoch: Its number, from 1.
        step: Number of optimizer steps done before it.
    """

    epoch: int
    step: int


class EpochFrame(_Frame, frozen=True, tag="epoch"):
    """The metrics at the end of an epoch (or of an extra validation).

    Attributes:
        metrics: By name: ``"train_loss"``, ``"val_loss"``, ``"train_accuracy"``, ``"val_accuracy"`` …
    """

    epoch: int
    step: int
    metrics: dict[str, float]


class ProgressFrame(_Frame, frozen=True, tag="progress"):
    """How far training has come.

    Attributes:
        batches: Batches in an epoch, or None where the data does not tell.
        steps_per_second: Smoothed over the last seconds; 0 before the first step.
        seconds_left: Estimate to the end of the last epoch, or None.
    """

    epoch: int
    epochs: int
    batch: int
    batches: int | None
    step: int
    steps_per_second: float
    seconds_left: float | None


class StateFrame(_Frame, frozen=True, tag="state"):
    """The engine changed state.

    Attributes:
        error: Why it failed, as shown to a person, or None.
        node: The node that failed, by its path on screen, or None.
    """

    state: TrainingState
    error: str | None = None
    node: str | None = None


class NormsFrame(_Frame, frozen=True, tag="norms"):
    """Euclidean norms of the gradients of one step.

    Attributes:
        norms: By module path, over that module's own parameters.
        total: Over all parameters, before clipping.
    """

    step: int
    norms: dict[str, float]
    total: float


class HistogramFrame(_Frame, frozen=True, tag="histogram"):
    """The distribution of one quantity at one layer, from a sample of its elements.

    Attributes:
        lower: Left edge of the first bin.
        upper: Right edge of the last bin; bins are equally wide.
        counts: Sampled finite elements per bin.
        sampled: How many elements were sampled.
        total: How many elements there were.
    """

    step: int
    layer: str
    quantity: Quantity
    lower: float
    upper: float
    counts: tuple[int, ...]
    sampled: int
    total: int


class StatisticsFrame(_Frame, frozen=True, tag="statistics"):
    """Statistics of one quantity at one layer.

    Attributes:
        values: By name: ``"mean"``, ``"std"``, ``"min"``, ``"max"``, ``"norm"``, ``"zeros"`` (fraction),
            ``"nan"``, ``"inf"`` (counts) …
    """

    step: int
    layer: str
    quantity: Quantity
    values: dict[str, float]


class LookFrame(_Frame, frozen=True, tag="look"):
    """What the training itself saw of its layers in one step, to be judged; nothing draws it.

    Attributes:
        statistics: Of activations, parameters and updates.
        norms: Of the gradients, or None where they were not taken.
    """

    step: int
    statistics: tuple[StatisticsFrame, ...]
    norms: NormsFrame | None = None


class BaselineFrame(_Frame, frozen=True, tag="baseline"):
    """What answers that ignore the inputs would cost, from the targets alone.

    Attributes:
        loss: Loss of the best constant answer.
        answer: That answer in words: ``"the mean of the targets"``, ``"the frequencies of the classes"``.
        share: Of classes, the share of the most frequent one; otherwise None.
        mean: Of quantities, their mean; otherwise None.
        deviation: Of quantities, their standard deviation; otherwise None.
    """

    loss: float
    answer: str
    share: float | None = None
    mean: float | None = None
    deviation: float | None = None


Evidence: TypeAlias = tuple[tuple[str, float], ...]
"""The numbers that show what was found, each with what it is, in the order in which they are drawn."""


class AnomalyFrame(_Frame, frozen=True, tag="anomaly"):
    """Something that a person should look at.

    Attributes:
        kind: Stable machine name, e.g. ``"nan-loss"``, ``"dead-relu"``.
        node: Where, by its path on screen, or None.
        hint: What to do about it, or None.
        evidence: The numbers that show it, to be compared with each other; empty where a curve of the history does.
    """

    step: int
    kind: str
    message: str
    node: str | None = None
    hint: str | None = None
    evidence: Evidence = ()


class CheckpointFrame(_Frame, frozen=True, tag="checkpoint"):
    """A checkpoint was written.

    Attributes:
        step: The last one that it holds.
        path: Of the file.
    """

    step: int
    path: str


class CostFrame(_Frame, frozen=True, tag="cost"):
    """What observing costs.

    Attributes:
        share: Of the running time since observing began, 0 to 1: processor time of the training thread that probes took,
            that of their hooks inside forward and backward included.
        margin: Half of the share's 95 % interval; None while there are too few observed steps to tell.
        frames_per_second: Observed steps a second, since the last such frame.
    """

    step: int
    share: float
    frames_per_second: float
    margin: float | None = None


class DeviceMemory(msgspec.Struct, frozen=True, rename="camel"):
    """What this process takes of one device's memory, in bytes.

    Attributes:
        allocated: By tensors.
        reserved: By torch's allocator, tensors included.
        peak: The most that was ever allocated.
    """

    allocated: int
    reserved: int
    peak: int


class MemoryFrame(_Frame, frozen=True, tag="memory"):
    """Memory in use, in bytes.

    Attributes:
        process: What the process takes of the machine's memory (its resident set).
        devices: By name, every accelerator that the training uses; empty on the CPU.
    """

    step: int
    process: int
    devices: dict[str, DeviceMemory]


class TimeFrame(_Frame, frozen=True, tag="time"):
    """Where the time went in the last few seconds of the training.

    Attributes:
        shares: By stage (``"data"``, ``"forward"``, ``"backward"``, ``"optimizer"``, ``"observe"``,
            ``"validation"``, ``"other"``), 0 to 1.
        words: The same for a person, with advice where the data is slow.
    """

    step: int
    shares: dict[str, float]
    words: str


class MeasureFrame(_Frame, frozen=True, tag="measure"):
    """Numbers of a measure that was registered from outside.

    Attributes:
        title: Of the measure.
        values: By name.
    """

    step: int
    title: str
    values: dict[str, float]


Frame: TypeAlias = (
    StepFrame | EpochFrame | ProgressFrame | StateFrame | NormsFrame | HistogramFrame | StatisticsFrame
    | LookFrame | BaselineFrame | AnomalyFrame | CheckpointFrame | CostFrame | MemoryFrame | TimeFrame
    | MeasureFrame
)  # fmt: skip
