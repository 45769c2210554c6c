from __future__ import annotations

import typing

import msgspec
import pytest

from pnne_nb.telemetry import frames
from pnne_nb.telemetry.frames import (
    AnomalyFrame,
    BaselineFrame,
    CheckpointFrame,
    CostFrame,
    DeviceMemory,
    EpochFrame,
    Frame,
    HistogramFrame,
    LookFrame,
    MeasureFrame,
    MemoryFrame,
    NormsFrame,
    ProgressFrame,
    StateFrame,
    StatisticsFrame,
    StepFrame,
    TimeFrame,
)

EXAMPLES: list[Frame] = [
    StepFrame(step=1, epoch=1, loss=0.5, learning_rate=1e-3, examples=64, seconds=0.1),
    EpochFrame(epoch=1, step=24, metrics={"train_loss": 0.4, "val_accuracy": 0.9}),
    ProgressFrame(epoch=1, epochs=5, batch=3, batches=None, step=3, steps_per_second=10.0, seconds_left=None),
    StateFrame(state="failed", error="RuntimeError: no", node="conv1"),
    NormsFrame(step=1, norms={"conv1": 0.1}, total=0.2),
    HistogramFrame(
        step=1, layer="relu1", quantity="activations", lower=0.0, upper=1.0, counts=(1, 2), sampled=3, total=30
    ),
    StatisticsFrame(step=1, layer="relu1", quantity="gradients", values={"mean": 0.0}),
    LookFrame(step=1, statistics=(StatisticsFrame(step=1, layer="fc", quantity="updates", values={"ratio": 0.0}),)),
    BaselineFrame(loss=2.3, answer="the frequencies of the classes", share=0.1),
    AnomalyFrame(step=1, kind="nan-loss", message="The loss became nan.", node="fc", hint=None),
    CheckpointFrame(step=1, path="run/000001-step-1.ckpt"),
    CostFrame(step=1, share=0.01, frames_per_second=9.5),
    MemoryFrame(step=1, process=2**30, devices={"cuda:0": DeviceMemory(allocated=1, reserved=2, peak=3)}),
    MeasureFrame(step=1, title="Norm of the weights", values={"fc": 1.5}),
    TimeFrame(step=1, shares={"data": 0.25, "forward": 0.75}, words="Time: fetching data 25%, forward 75%."),
]


def test_the_examples_cover_the_union() -> None:
    assert {type(example) for example in EXAMPLES} == set(typing.get_args(Frame))


@pytest.mark.parametrize("frame", EXAMPLES, ids=lambda frame: type(frame).__name__)
def test_a_frame_survives_the_wire(frame: Frame) -> None:
    assert msgspec.json.decode(msgspec.json.encode(frame), type=Frame) == frame


def test_frames_are_told_apart_by_their_tag() -> None:
    tags = {type(frame).__struct_config__.tag for frame in EXAMPLES}
    assert len(tags) == len(EXAMPLES)


@pytest.mark.parametrize("frame", EXAMPLES, ids=lambda frame: type(frame).__name__)
def test_a_frame_cannot_be_changed(frame: Frame) -> None:
    with pytest.raises(AttributeError, match="immutable"):
        frame.step = 2  # type: ignore[union-attr, misc]  # what is tested


def test_every_frame_is_documented() -> None:
    for kind in typing.get_args(frames.Frame):
        assert kind.__doc__
