"""A validation that is asked for, in the middle of an epoch."""

from __future__ import annotations

import pytest

from pnne_nb.errors import TrainingError
from pnne_nb.frames import EpochFrame
from tests.runtime.tasks import engine, images


def test_it_is_recorded_and_changes_nothing_for_the_training() -> None:
    undisturbed = engine(val_data=images(seed=2))
    undisturbed.start()
    assert undisturbed.wait(60)
    told: list[EpochFrame] = []
    trained = engine(val_data=images(seed=2))
    trained.step(3)
    trained.on("epoch", told.append)
    found = trained.validate()
    assert set(found) == {"val_loss", "val_accuracy"}
    assert [(frame.epoch, frame.step, frame.metrics) for frame in told] == [(1, 3, found)]
    assert trained.module.training
    assert trained.history["val_loss"].tolist() == [found["val_loss"]]
    trained.resume()
    assert trained.wait(60)
    assert trained.history["loss"].tolist() == undisturbed.history["loss"].tolist()
    assert trained.history["val_loss"].tolist()[1:] == undisturbed.history["val_loss"].tolist()


def test_it_works_while_training_runs_and_before_it_starts() -> None:
    trained = engine(val_data=images(seed=2), epochs=100_000)
    before = trained.validate()
    assert before == trained.validate()
    trained.start()
    assert trained.validate()["val_loss"] > 0
    trained.stop()


def test_without_validation_data_it_is_refused() -> None:
    with pytest.raises(TrainingError, match="There is no validation data: give val_data"):
        engine().validate()
