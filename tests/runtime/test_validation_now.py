"""A validation that is asked for, in the middle of an epoch, and a checkpoint likewise."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torch import Tensor

from pnne_nb.errors import CheckpointError, TrainingError
from pnne_nb.runtime.engine import TrainingEngine
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame
from tests.runtime.tasks import engine, images


def test_it_is_recorded_and_changes_nothing_for_the_training() -> None:
    undisturbed = engine(val_data=images(seed=2))
    assert undisturbed.start().wait(60)
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


def engine_that_does(act: Callable[[TrainingEngine], object]) -> TrainingEngine:
    """A training that does something once, in the middle of its first validation."""
    made: list[TrainingEngine] = []

    def mean(output: Tensor, _target: Tensor) -> Tensor:
        if made and not made[0].module.training:
            act(made.pop())
        return output.mean()

    trained = engine(val_data=images(seed=2), metrics=("accuracy", mean))
    made.append(trained)
    return trained


def halted_in_a_validation() -> TrainingEngine:
    trained = engine_that_does(lambda found: found.pause(wait=False))
    halted = threading.Event()
    trained.on("state", lambda frame: halted.set() if frame.state == "paused" else None)
    trained.start()
    assert halted.wait(60)
    assert not trained.module.training
    return trained


def test_halted_in_the_middle_of_a_validation_it_makes_the_rest() -> None:
    undisturbed = engine_that_does(lambda _: None)
    assert undisturbed.start().wait(60)
    told: list[EpochFrame] = []
    trained = halted_in_a_validation()
    trained.on("epoch", told.append)
    found = trained.validate()
    assert [(frame.epoch, frame.step, frame.metrics) for frame in told] == [(1, 6, found)]
    assert found["val_loss"] == undisturbed.history["val_loss"][0]
    assert trained.validate() == found
    trained.resume()
    assert trained.wait(60)
    assert trained.history["loss"].tolist() == undisturbed.history["loss"].tolist()
    for name in ("val_loss", "val_accuracy", "val_mean", "train_accuracy"):
        assert trained.history[name].tolist()[-2:] == undisturbed.history[name].tolist()


def test_several_at_once_each_have_the_result() -> None:
    trained = halted_in_a_validation()
    with ThreadPoolExecutor(4) as askers:
        found = list(askers.map(lambda _: trained.validate(), range(8)))
    assert found == found[:1] * 8
    trained.stop()


def test_inside_of_a_validation_it_is_refused() -> None:
    trained = engine_that_does(lambda found: found.validate())
    trained.start()
    with pytest.raises(TrainingError, match="This is inside a validation already, which would wait for itself"):
        trained.wait(60)


def test_without_validation_data_it_is_refused() -> None:
    with pytest.raises(TrainingError, match="There is no validation data: give val_data"):
        engine().validate()


def test_buttons_ask_and_do_not_wait(tmp_path: Path) -> None:
    trained = engine(val_data=images(2), epochs=100_000, checkpoint_dir=tmp_path)
    told = threading.Event()
    trained.on("epoch", lambda frame: told.set() if "train_loss" not in frame.metrics else None)
    trained.step(3)
    assert trained.validate(wait=False) == {}
    assert told.wait(60)
    assert trained.history["val_loss"].tolist() == [trained.validate()["val_loss"]]
    trained.save_checkpoint()
    assert [path.name for path in tmp_path.iterdir()] == ["000001-step-3.ckpt"]
    trained.stop()


def test_what_a_button_cannot_have_is_refused_at_once() -> None:
    trained = engine()
    with pytest.raises(TrainingError, match="There is no validation data: give val_data"):
        trained.validate(wait=False)
    with pytest.raises(CheckpointError, match="There is no place for a checkpoint: give the engine a checkpoint_dir"):
        trained.save_checkpoint(wait=False)


def test_a_request_that_fails_later_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    trained = engine()
    told: list[AnomalyFrame] = []
    failed = threading.Event()

    def note(frame: AnomalyFrame) -> None:
        told.append(frame)
        failed.set()

    trained.on("anomaly", note)
    trained.save_checkpoint(tmp_path / "file" / "a.ckpt", wait=False)
    assert failed.wait(60)
    assert (told[0].kind, "cannot be written" in told[0].message) == ("request-failed", True)
