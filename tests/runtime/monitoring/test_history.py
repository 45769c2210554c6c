from __future__ import annotations

import copy
import math
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

from pnne_nb.runtime.monitoring.history import ANOMALIES_KEPT, History
from pnne_nb.telemetry.frames import AnomalyFrame, EpochFrame, StepFrame


def frame(step: int, loss: float = 0.5, epoch: int = 1) -> StepFrame:
    return StepFrame(step=step, epoch=epoch, loss=loss, learning_rate=0.1, examples=4, seconds=step / 10)


def test_a_million_steps_need_no_more_room_than_the_capacity() -> None:
    history = History(capacity=1024)
    for step in range(1, 1_000_001, 5):
        history.record(frame(step, loss=1 / step))
    assert len(history["loss"]) < 1024 + 3
    assert history["loss"][0] == 1.0


def example() -> History:
    history = History(capacity=8)
    for step in range(1, 40):
        history.record(frame(step, loss=40.0 - step))
    history.record(EpochFrame(epoch=1, step=20, metrics={"train_loss": 2.0}))
    history.record(EpochFrame(epoch=2, step=39, metrics={"train_loss": 1.0, "val_loss": 3.0}))
    history.record(AnomalyFrame(step=3, kind="nan-loss", message="It became nan."))
    return history


def test_metrics_by_name() -> None:
    history = example()
    assert list(history) == ["loss", "learning_rate", "train_loss", "val_loss"]
    assert len(history) == 4
    assert history["train_loss"].tolist() == [2.0, 1.0]
    assert math.isnan(history["val_loss"][0])
    assert history.steps("val_loss").tolist() == [20, 39]
    assert history.epochs.tolist() == [1, 2]
    assert history.steps()[-1] == 39
    assert [epoch.metrics["train_loss"] for epoch in history.epoch_frames()] == [2.0, 1.0]
    assert [anomaly.kind for anomaly in history.anomalies] == ["nan-loss"]


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(KeyError, match=r"The history has no 'los'; it has loss, .* Did you mean 'loss'"):
        example()["los"]
    with pytest.raises(KeyError, match="The history has no 'nothing'"):
        example().steps("nothing")
    with pytest.raises(KeyError, match=r"'train_accuracy'; .* An epoch has to end first: engine.wait\(\)"):
        History()["train_accuracy"]


def test_a_summary() -> None:
    summary = example().summary()
    assert summary["steps"] == 39
    assert summary["seconds"] == pytest.approx(3.9)
    assert summary["best_train_loss"] == 1.0
    assert summary["loss"] == 1.0


def test_tables(tmp_path: Path) -> None:
    history = example()
    table = history.to_frame()
    assert list(table.columns) == ["step", "train_loss", "val_loss"]
    assert table.index.tolist() == [1, 2]
    assert history.to_frame("steps")["loss"].iloc[-1] == 1.0
    assert History().to_frame().empty
    assert History().to_frame("steps").empty
    history.to_csv(tmp_path / "history.csv")
    assert (tmp_path / "history.csv").read_text().startswith("epoch,step,train_loss")
    with pytest.raises(ValueError, match=r"over cannot be 'days'\. It is one of 'epochs', 'steps'"):
        history.to_frame("days")  # type: ignore[arg-type]  # wrong on purpose


def test_the_last_anomalies_are_kept() -> None:
    history = History()
    for step in range(ANOMALIES_KEPT + 5):
        history.record(AnomalyFrame(step=step, kind="test", message=""))
    assert len(history.anomalies) == ANOMALIES_KEPT
    assert history.anomalies[0].step == 5


def test_a_history_continues_where_another_was() -> None:
    first, second = example(), History(capacity=8)
    second.load_state_dict(first.state_dict())
    for history in (first, second):
        for step in range(40, 90):
            history.record(frame(step, loss=float(step % 9)))
    assert {name: values.tolist() for name, values in first.items() if name != "val_loss"} == {
        name: values.tolist() for name, values in second.items() if name != "val_loss"
    }
    assert second.anomalies == first.anomalies
    assert second.summary()["steps"] == 89


def test_a_copy_keeps_what_was_there_while_the_training_goes_on() -> None:
    history = example()
    before, summary = history["loss"].tolist(), history.summary()
    copies = copy.deepcopy(history), pickle.loads(pickle.dumps(history))
    history.record(frame(100, loss=9.0))
    for kept in copies:
        assert kept["loss"].tolist() == before
        assert kept.summary() == summary


@pytest.mark.stress
def test_steps_and_values_are_read_as_of_one_moment_while_training_writes() -> None:
    history = History(capacity=64)
    ended = threading.Event()

    def train() -> None:
        for number in range(1, 20_000):
            history.record(frame(number, loss=float(number)))
        ended.set()

    thread = threading.Thread(target=train)
    thread.start()
    while not ended.is_set():
        steps, values = history.points("loss")
        np.testing.assert_array_equal(steps, values)
        history.to_frame("steps")
    thread.join()


def test_its_memory_is_told_and_bounded() -> None:
    history = History(capacity=64)
    for step in range(1, 1001):
        history.record(frame(step))
        assert 32 * min(step, 16) <= history.nbytes <= 2 * 16 * 64
    before = history.nbytes
    history.record(EpochFrame(1, 1000, {"train_loss": 0.5, "train_accuracy": 1.0}))
    assert history.nbytes == before + 32


def test_a_summary_tells_the_last_that_was_measured_and_counts_epochs_once() -> None:
    history = History()
    for step, metrics in ((4, {"val_loss": 2.0}), (6, {"train_loss": 1.0})):
        history.record(EpochFrame(epoch=1, step=step, metrics=metrics))
    assert (history.summary()["val_loss"], history.summary()["train_loss"]) == (2.0, 1.0)
    assert repr(history).startswith("History(0 steps, 1 epochs: ")


def test_a_history_is_equal_to_itself_alone() -> None:
    one, other = History(), History()
    one.record(StepFrame(1, 1, 0.5, 1e-3, 16, 0.1))
    assert one == one  # noqa: PLR0124  # what is tested
    assert one != other
    assert {one: "kept"}[one] == "kept"


def test_metrics_of_one_moment_that_are_told_in_parts_are_one_row() -> None:
    history = History()
    history.record(EpochFrame(1, 10, {"train_loss": 2.0}))
    history.record(EpochFrame(1, 10, {"val_loss": 3.0}))
    history.record(EpochFrame(2, 20, {"train_loss": 1.0}))
    assert history.epochs.tolist() == [1, 2]
    assert history["train_loss"].tolist() == [2.0, 1.0]
    assert history["val_loss"].tolist()[:1] == [3.0]
    assert math.isnan(history["val_loss"][1])
