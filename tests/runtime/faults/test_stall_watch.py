from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from pnne_nb.runtime.faults import stall_watch
from pnne_nb.runtime.faults.stall_watch import StallWatch
from pnne_nb.telemetry.frames import AnomalyFrame
from tests.runtime.tasks import engine


class Held(Dataset[tuple[Tensor, int]]):
    """Waits at one item until it is let go."""

    def __init__(self, waits: Callable[[], object]) -> None:
        self.let_go = threading.Event()
        self.waits = waits

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index == 40:
            self.waits()
            assert self.let_go.wait(60)
        return torch.ones(1, 6, 6), index % 4


def test_data_that_does_not_come_is_told_of_and_training_goes_on_when_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_watch, "_LOOKS", 1000)
    # On a busy machine, any step may take long.
    data = Held(lambda: monkeypatch.setattr(stall_watch, "PATIENCE", 0.2))
    trained = engine(train_data=data, shuffle=False, epochs=1)
    told: list[AnomalyFrame] = []

    def note(frame: AnomalyFrame) -> None:
        told.append(frame)
        monkeypatch.undo()
        data.let_go.set()

    trained.on("anomaly", note)
    assert trained.start().wait(60)
    assert [(frame.kind, frame.step) for frame in told] == [("stalled", 3)]
    assert told[0].message.startswith("The training has stalled: fetching batch 3 of epoch 1 has taken ")
    assert told[0].hint is not None
    assert "Look at what the dataset Held waits for" in told[0].hint
    assert "stop() ends such workers; of data that is read in the kernel, it waits for the batch." in told[0].hint
    assert trained.history.anomalies == told


def looked(watch: StallWatch, times: list[float]) -> list[float]:
    """At which of `times` there is something to tell."""
    return [now for now in times if watch.look(now) is not None]


def test_a_stall_is_told_again_only_when_it_has_lasted_twice_as_long() -> None:
    watch = StallWatch(
        lambda: "training on batch 1 of epoch 1",
        lambda: 1,
        lambda frame: None,
        lambda: "the dataset",
        threading.Event(),
        lambda _: None,
    )
    seconds = [float(now) for now in range(0, 200, 5)]
    assert looked(watch, seconds) == []
    watch.began(0.0)
    assert looked(watch, seconds) == [30.0, 60.0, 120.0]
    watch.ended(200.0)
    assert looked(watch, seconds) == []


def test_a_long_step_makes_the_watch_more_patient() -> None:
    watch = StallWatch(
        lambda: "training on batch 1 of epoch 1",
        lambda: 1,
        lambda frame: None,
        lambda: "the dataset",
        threading.Event(),
        lambda _: None,
    )
    watch.began(0.0)
    watch.ended(100.0)
    watch.began(100.0)
    assert looked(watch, [200.0, 399.0, 400.0]) == [400.0]
    found = watch.look(1100.0)
    assert found is not None
    assert found.message == "The training has stalled: training on batch 1 of epoch 1 has taken 1000 s so far."
