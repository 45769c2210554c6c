"""The event at the start of an epoch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from pnne_nb.runtime.engine import TrainingEngine

X, Y = torch.ones(12, 3), torch.ones(12, 1)


def told_by(engine: TrainingEngine, *events: str) -> list[tuple[str, int, int]]:
    told: list[tuple[str, int, int]] = []
    for event in events:

        def tell(frame: Any, event: str = event) -> None:
            told.append((event, frame.epoch, frame.step))

        engine.on(event, tell)
    return told


def engine(**options: Any) -> TrainingEngine:
    return TrainingEngine(nn.Linear(3, 1), (X, Y), batch_size=6, device="cpu", **options)


def test_it_comes_once_before_the_first_batch_of_each_epoch() -> None:
    trained = engine(epochs=2)
    told = told_by(trained, "epoch_start", "step", "epoch")
    trained.step(3)  # a halt in the middle of an epoch begins none
    assert trained.start().wait(60)
    assert told == [
        ("epoch_start", 1, 0), ("step", 1, 1), ("step", 1, 2), ("epoch", 1, 2),
        ("epoch_start", 2, 2), ("step", 2, 3), ("step", 2, 4), ("epoch", 2, 4),
    ]  # fmt: skip


def test_an_epoch_that_early_stopping_leaves_out_does_not_begin() -> None:
    stopped = engine(epochs=9, early_stopping=1, optimizer=("SGD", {"lr": 0.0}))
    told = told_by(stopped, "epoch_start")
    assert stopped.start().wait(60)
    assert [epoch for _, epoch, _ in told] == [1, 2]
